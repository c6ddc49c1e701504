// Hears what runs in the steps: kernels and their arguments, backwards, updates.
#pragma once
#include <map>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "warptape/core/geometry.h"
#include "warptape/core/profiler.h"
#include "warptape/nn/name_lookups.h"
#include "warptape/optim/doctor.h"
#include "warptape/optim/doctor/evidence.h"

namespace wt::doctor {

// Counts what the program's steps do, from the ranges of the profiler. Of the thread that made it;
// others are not heard.
class Listener final : public profiler::Observer {
 public:
  // Fills in e.parameters; keeps references to both.
  Listener(const Subject& s, Evidence& e);

  // begin(), end(): a kernel, backward or operator begins or ends.
  void begin(const profiler::Range& r) noexcept override;
  void end(const profiler::Range& r) noexcept override;

  // Counts from 0 again.
  void begin_step();
  // What was counted since begin_step(); times are the caller's.
  StepSeen end_step();
  // From here on what is heard goes into the evidence: the steps before were to warm up.
  void measure() { measuring_ = true; }
  // Whether what runs is the evaluation, not a step.
  void evaluate(bool on) { evaluating_ = on; }
  // Puts what it kept aside into the evidence.
  void finish();
  // Notes which parameters have a gradient now.
  void look_at_gradients();
  // The subject's parameters in the order of Evidence::parameters.
  const std::vector<Tensor>& parameters() const { return parameters_; }

 private:
  struct Owner {
    optim::Optimizer* optimizer;
    std::vector<Tensor> parameters;
    i64 steps = 0;                 // attempted ones, when it was last looked at
    bool zeroed = false;           // a backward has begun without old gradients since the last step
    std::vector<u32> backwards{};  // that had reached each parameter by the last step
    bool seen_step = false;
  };

  void hear(const profiler::Range& r);
  void hear_kernel(const profiler::Range& r);
  void hear_evaluation(const profiler::Range& r);
  void begin_walk(const profiler::Range& r);
  void look_at_updates();
  void product(const profiler::Range& r);
  void logits(const View& x, int axis, i64 rows, Device d);
  void labels(const View& y, i64 ignored, i64 classes, const profiler::Range& r);
  void look_at_relu();

  const Subject& subject_;
  Evidence& e_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::vector<Owner> owners_;
  std::vector<Tensor> parameters_;  // of e_.parameters, in their order
  StepSeen step_;
  u64 sequence_ = 0;
  nn::detail::NameLookups lookups_{};  // at the step's begin
  int depth_ = 0;
  bool in_walk_ = false, measuring_ = false, evaluating_ = false;
  bool step_looked_ = false;  // at the gradients, before this step's update
  i64 advances_ = 0;          // updates of optimizers that nobody named
  std::set<std::vector<i64>> shapes_;
  // By line, mode, and which call of a step it is there.
  using ReluKey = std::tuple<u32, u32, i64>;
  std::map<ReluKey, ReluSeen> relus_;
  std::map<std::pair<u32, u32>, i64> relu_calls_;  // of this step
  View relu_out_{};
  ReluKey relu_key_{};
  std::set<std::pair<u32, u32>> class_losses_;
  i64 probability_calls_ = 0, logit_calls_ = 0;
};

// Whether the host can read memory of this device as it is: no meta, no queue.
bool is_readable(Device d);

}  // namespace wt::doctor
