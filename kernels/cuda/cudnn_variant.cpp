#include "warptape/kernels/cuda/cudnn_variant.h"

#include "warptape/core/machine/launch_timer.h"

namespace wt {

bool cudnn_compute(const CudnnCall& call, const Launch& l, std::string& reason) {
  const auto run = [&](CudnnPlan& plan) {
    // The size of a plan is known on its device alone, so it is asked for here.
    const CudnnWorkspace workspace(l.device, plan.workspace);
    std::vector<void*> pointers = call.pointers;
    return cudnn_run(plan, l.device, l.stream, int(call.ids.size()), call.ids.data(),
                     pointers.data(), workspace.data());
  };
  if (detail::is_timing())
    cudnn_time_engines(l.device, call.key, call.exact, call.describe, call.problem, run);
  CudnnPlan& plan = cudnn_plan(l.device, call.key, call.exact, call.describe, call.problem);
  if (plan.why_not.empty() && run(plan)) return true;
  reason = plan.why_not;
  return false;
}

}  // namespace wt
