// What a stage of a pipeline exchanges with its neighbours, and the actions of a step. Internal.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "warptape/autograd/loss.h"
#include "warptape/dist/communicator.h"
#include "warptape/dist/pipeline_schedule.h"

namespace wt::dist::detail {

// An activation says before itself what it is: shape, dtype, and whether its gradient is wanted
// back. A gradient says whether there is one: a stage that its loss does not depend on has none, as
// in one process. What describes goes through control().
//
// Sends are begun, and one a direction is under way at a time: what was sent is held until the next
// one goes the same way.
class StageLink {
 public:
  StageLink(Communicator& comm, Device device) : comm_(comm), device_(device) {}

  struct Activation {
    Tensor value;
    bool wants_gradient = false;
  };
  void send_activation(const Activation& a);
  Activation receive_activation();
  // To the stage before; undefined: there is none.
  void send_gradient(const Tensor& g);
  Tensor receive_gradient(const Shape& shape, DType dtype);
  // All that was sent has gone.
  void finish();

  int rank() const { return comm_.rank(); }
  bool is_first() const { return comm_.rank() == 0; }
  bool is_last() const { return comm_.rank() == comm_.size() - 1; }
  Device device() const { return device_; }

 private:
  struct Sending {
    std::vector<Tensor> tensors{};
    std::vector<Work> works{};
    void wait();
  };
  void send(Sending& s, int to, const Tensor& header, const Tensor& payload);

  Communicator& comm_;
  Device device_;
  Sending forward_, backward_;
};

struct StageCalls {
  std::function<Tensor(i64 k)> input;                       // of the first stage
  std::function<Tensor(Tensor)> stage;                      //
  std::function<Tensor(const Tensor& output, i64 k)> loss;  // of the last one: what is walked
};
// Does the actions of one step.
void run_actions(StageLink& link, const std::vector<PipelineAction>& actions,
                 const StageCalls& calls);

// total[0] += loss.sum, total[1] += loss.weight; total: f64 on `device`. Throws UsageError unless
// both are one element there.
void add_loss(Tensor& total, const Loss& loss, Device device);

}  // namespace wt::dist::detail
