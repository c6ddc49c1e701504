// Lab 12: see FP16 training fail, then write the loss scaler. page.md says what is asked,
// loss_scaling.h what each function promises.
#include "loss_scaling.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"

namespace scaling {

using namespace wt;

Cliffs find_cliffs(const Gradient& gradient) {
  (void)gradient;
  return {};  // yours: try scales, count zeros
}

Scaler make_scaler(Device device, const Options& options) {
  const TensorOptions there{.dtype = DType::f32, .device = device};
  return {.scale = full({}, options.init_scale, there),
          .good_steps = zeros({}, there),
          .found = zeros({}, there)};
}

Tensor scale_loss(const Scaler& scaler, const Tensor& loss) {
  (void)scaler;
  return loss;  // yours
}

void unscale_(Scaler& scaler, const std::vector<Tensor>& gradients) {
  const NoGrad no_grad;
  (void)scaler;
  (void)gradients;  // yours
}

void sgd_step_(const Scaler& scaler, const std::vector<Tensor>& weights,
               const std::vector<Tensor>& gradients, double rate) {
  const NoGrad no_grad;
  (void)scaler;  // yours: this is plain SGD
  for (size_t i = 0; i < weights.size(); ++i) {
    Tensor w = weights[i];
    w -= rate * gradients[i];
  }
}

void update_(Scaler& scaler, const Options& options) {
  const NoGrad no_grad;
  (void)scaler;
  (void)options;  // yours
}

}  // namespace scaling
