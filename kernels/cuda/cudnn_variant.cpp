#include "warptape/kernels/cuda/cudnn_variant.h"

namespace wt {

bool cudnn_compute(const CudnnCall& call, const Launch& l, std::string& reason) {
  CudnnPlan& plan = cudnn_plan(l.device, call.key, call.exact, call.describe, call.problem);
  bool done = false;
  if (plan.why_not.empty()) {
    // The size of a plan is known on its device alone, so it is asked for here.
    const CudnnWorkspace workspace(l.device, plan.workspace);
    std::vector<void*> pointers = call.pointers;
    done = cudnn_run(plan, l.device, l.stream, int(call.ids.size()), call.ids.data(),
                     pointers.data(), workspace.data());
  }
  if (!done) reason = plan.why_not;
  return done;
}

}  // namespace wt
