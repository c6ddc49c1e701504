// adam_launches: AdamW over many small tensors, as one launch over an arena and as a loop of
// operators over tensors, which is what a fused optimizer is there to spare (NVIDIA's Apex:
// FusedAdam).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "warptape/autograd/node.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/bench/overhead_rows.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/profiler.h"
#include "warptape/core/storage.h"
#include "warptape/optim/optimizer.h"

namespace wt::bench {
namespace {

constexpr i64 kSmallTensors = 64, kSmallSide = 64;
constexpr double kRate = 1e-3, kDecay = 0.1, kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;
constexpr int kComparedSteps = 10;

struct LaunchCount : profiler::Observer {
  double launches = 0;
  void begin(const profiler::Range& r) noexcept override {
    launches += r.kind == profiler::Kind::kernel;
  }
};
double launches_of(const std::function<void()>& step) {
  LaunchCount count;
  const profiler::ObserverScope watch(count);
  step();
  return count.launches;
}

Tensor small_gradient(i64 i) { return hashed({kSmallSide, kSmallSide}, u64(i) + 2001, 0.01); }
Tensor small_weight(i64 i) { return hashed({kSmallSide, kSmallSide}, u64(i) + 1, 0.05); }

class FusedSteps {
 public:
  FusedSteps()
      : parameters_(named()),
        opt_(parameters_,
             {.lr = kRate, .betas = {kBeta1, kBeta2}, .eps = kEps, .weight_decay = kDecay}) {
    for (i64 i = 0; i < kSmallTensors; ++i) {
      leaves_.push_back(leaf_of(weight(i).impl()));
      const Tensor g = small_gradient(i);
      std::memcpy(leaves_.back()->grad->data, g.impl()->data, size_t(g.numel()) * 4);
    }
  }
  void operator()() {
    for (Leaf* l : leaves_) {  // as a backward leaves them
      l->written = true;
      ++l->backwards;
      l->grad->cell->wrote(mode.frame);
    }
    opt_.step();
    opt_.zero_grad();
  }
  const Tensor& weight(i64 i) const { return parameters_[size_t(i)].tensor; }

 private:
  static std::vector<nn::NamedTensor> named() {
    std::vector<nn::NamedTensor> all;
    for (i64 i = 0; i < kSmallTensors; ++i) {
      all.push_back({str("p", i), small_weight(i)});
      all.back().tensor.set_requires_grad();
    }
    return all;
  }
  std::vector<nn::NamedTensor> parameters_;
  optim::AdamW opt_;
  std::vector<Leaf*> leaves_;
};

// The formula of AdamW in operators, tensor after tensor.
class LoopedSteps {
 public:
  LoopedSteps() {
    for (i64 i = 0; i < kSmallTensors; ++i) {
      weights_.push_back(small_weight(i));
      gradients_.push_back(small_gradient(i));
      means_.push_back(zeros({kSmallSide, kSmallSide}));
      squares_.push_back(zeros({kSmallSide, kSmallSide}));
    }
  }
  void operator()() {
    const NoGrad no_grad;
    ++steps_;
    const double of_mean = 1 - std::pow(kBeta1, double(steps_));
    const double of_square = 1 - std::pow(kBeta2, double(steps_));
    for (size_t i = 0; i < weights_.size(); ++i) {
      means_[i].lerp_(gradients_[i], 1 - kBeta1);
      squares_[i].lerp_(square(gradients_[i]), 1 - kBeta2);
      Tensor root = sqrt(squares_[i]);
      root.mul_(1 / std::sqrt(of_square)).add_(kEps);
      weights_[i].mul_(1 - kRate * kDecay);
      weights_[i].sub_(means_[i] / std::move(root), {.alpha = kRate / of_mean});
    }
  }
  const Tensor& weight(i64 i) const { return weights_[size_t(i)]; }

 private:
  std::vector<Tensor> weights_, gradients_, means_, squares_;
  i64 steps_ = 0;
};

// Mean magnitude of the weights.
template <class Steps>
double check_of(const Steps& steps) {
  double sum = 0;
  for (i64 i = 0; i < kSmallTensors; ++i)
    for (const float v : steps.weight(i).template to_vector<float>()) sum += std::abs(double(v));
  return sum / double(kSmallTensors * kSmallSide * kSmallSide);
}

template <class Steps>
OverheadRow launches_row(const OverheadOptions& o, const char* shape, Steps& steps, double check) {
  const double launches = o.take_step ? -1 : launches_of([&] { steps(); });
  OverheadRow row = measure(o, "adam_launches", shape, 1, [&] { steps(); });
  row.launches = launches;
  row.check_loss = check;
  return row;
}

}  // namespace

std::vector<OverheadRow> adam_launches(const OverheadOptions& o) {
  FusedSteps fused;
  LoopedSteps looped;
  for (int i = 0; i < kComparedSteps; ++i) fused(), looped();
  const double a = check_of(fused), b = check_of(looped);
  if (!(std::abs(a - b) <= 1e-6 * std::abs(a)))
    throw InternalError(str("adam_launches: the fused step's weights are ", a,
                            " in the mean, those "
                            "of the loop ",
                            b));
  std::vector<OverheadRow> rows{launches_row(o, "64 x 64x64, fused", fused, a)};
  if (!o.take_step) rows.push_back(launches_row(o, "64 x 64x64, by tensor", looped, b));
  return rows;
}

}  // namespace wt::bench
