#include "whole_step.h"

#include <utility>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph.h"
#include "warptape/core/mode.h"

namespace whole {

using namespace wt;

namespace {

// What one shape of batches has: inputs at fixed places, and what was captured of them.
struct Plan {
  Tensor x, y, result{};
  Graph graph;
  int calls = 0;
};

class Mine : public Step {
 public:
  Mine(Model& model, Device device)
      : model_(model),
        device_(device),
        parameters_(model.parameters()),
        rate_(zeros({}, {.dtype = DType::f32, .device = device})) {
    for (const Tensor& p : parameters_) velocity_.push_back(zeros_like(p.detach()));
  }

  Tensor run(const Batch& batch, double rate) override {
    const NoGrad no_grad;
    rate_.fill_(rate);
    Plan& p = plan_of(batch);
    p.x.copy_(batch.x);
    p.y.copy_(batch.y);
    const auto step = [&] { p.result = body(p.x, p.y); };
    ++p.calls;
    if (p.calls == 1) {
      step();  // what is made at a first use is made outside of a graph
    } else if (p.calls <= 3) {
      p.graph.warm_up(step);
    } else {
      if (!p.graph.captured()) p.graph.capture(step);  // records, and runs nothing
      p.graph.replay();
    }
    return p.result.clone();
  }

 private:
  Plan& plan_of(const Batch& batch) {
    for (const auto& p : plans_)
      if (p->x.shape() == batch.x.shape() && p->y.shape() == batch.y.shape()) return *p;
    Graph graph = plans_.empty() ? Graph(device_) : Graph(plans_[0]->graph, std::in_place);
    plans_.push_back(std::make_unique<Plan>(
        Plan{.x = empty_like(batch.x), .y = empty_like(batch.y), .graph = std::move(graph)}));
    return *plans_.back();
  }

  // Everything that changes from step to step and is read here lies in a tensor that stays where it
  // is.
  Tensor body(const Tensor& x, const Tensor& y) {
    const EnableGrad grad;
    for (const Tensor& p : parameters_) p.zero_grad();
    const Tensor loss = model_.loss(x, y);
    loss.backward();
    const NoGrad no_grad;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Tensor p = parameters_[i], v = velocity_[i];
      v *= kMomentum;
      v += p.grad();
      p -= v * rate_;
    }
    return loss.detach();
  }

  Model& model_;
  const Device device_;
  const std::vector<Tensor> parameters_;
  std::vector<Tensor> velocity_{};
  Tensor rate_;
  std::vector<std::unique_ptr<Plan>> plans_{};
};

}  // namespace

std::unique_ptr<Step> make_step(Model& model, Device device) {
  return std::make_unique<Mine>(model, device);
}

}  // namespace whole
