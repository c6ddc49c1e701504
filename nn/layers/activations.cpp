#include "warptape/nn/activations.h"

#include "warptape/autograd/ops/composite_activation.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/nn/make_parameter.h"

namespace wt::nn {

Tensor ReLU::forward(Tensor x) { return relu(std::move(x)); }
Tensor ReLU6::forward(Tensor x) { return relu6(std::move(x)); }
Hardtanh::Hardtanh(double low, double high, const CallLine&) : low_(low), high_(high) {
  if (!(low_ < high_))
    throw UsageError(
        str("[Hardtanh] low must be below high, got ", low_, " and ", high_, at_line()));
}
Tensor Hardtanh::forward(Tensor x) { return hardtanh(std::move(x), low_, high_); }
Tensor LeakyReLU::forward(Tensor x) { return leaky_relu(std::move(x), slope_); }
RReLU::RReLU(double lower, double upper, const CallLine&) : lower_(lower), upper_(upper) {
  if (!(lower_ <= upper_))
    throw UsageError(
        str("[RReLU] lower must not be above upper, got ", lower_, " and ", upper_, at_line()));
}
Tensor RReLU::forward(Tensor x) {
  if (!is_training()) return leaky_relu(std::move(x), (lower_ + upper_) / 2);
  const Tensor draw = rand(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  const Tensor slope = draw * (upper_ - lower_) + lower_, positive = gt(x.detach(), 0);
  return where(positive, x, x * slope);
}
Tensor ELU::forward(Tensor x) { return elu(std::move(x), alpha_); }
CELU::CELU(double alpha, const CallLine&) : alpha_(alpha) {
  if (alpha_ == 0) throw UsageError(str("[CELU] alpha must not be 0", at_line()));
}
Tensor CELU::forward(Tensor x) { return celu(std::move(x), alpha_); }
Tensor SELU::forward(Tensor x) { return selu(std::move(x)); }
Tensor GELU::forward(Tensor x) {
  return approximate_ == Approximate::tanh ? gelu_tanh(std::move(x)) : gelu(std::move(x));
}
Tensor SiLU::forward(Tensor x) { return silu(std::move(x)); }
Tensor Mish::forward(Tensor x) { return mish(std::move(x)); }
Softplus::Softplus(double beta, double threshold, const CallLine&)
    : beta_(beta), threshold_(threshold) {
  if (!(beta_ > 0))
    throw UsageError(str("[Softplus] beta must be above 0, got ", beta_, at_line()));
}
Tensor Softplus::forward(Tensor x) { return softplus(std::move(x), beta_, threshold_); }
Tensor Hardswish::forward(Tensor x) { return hardswish(std::move(x)); }
Tensor Hardsigmoid::forward(Tensor x) { return hardsigmoid(std::move(x)); }
Tensor Sigmoid::forward(Tensor x) { return sigmoid(std::move(x)); }
Tensor Tanh::forward(Tensor x) { return tanh(std::move(x)); }
Tensor LogSigmoid::forward(Tensor x) { return logsigmoid(std::move(x)); }
Tensor Softsign::forward(Tensor x) { return softsign(std::move(x)); }
Tensor Tanhshrink::forward(Tensor x) { return tanhshrink(std::move(x)); }
Tensor Hardshrink::forward(Tensor x) { return hardshrink(std::move(x), lambda_); }
Softshrink::Softshrink(double lambda, const CallLine&) : lambda_(lambda) {
  if (!(lambda_ >= 0))
    throw UsageError(str("[Softshrink] lambda must be at least 0, got ", lambda_, at_line()));
}
Tensor Softshrink::forward(Tensor x) { return softshrink(std::move(x), lambda_); }
Tensor Threshold::forward(Tensor x) { return threshold(std::move(x), threshold_, value_); }
Tensor GLU::forward(Tensor x) {
  const i64 n = x.size(axis_);
  if (n % 2 != 0)
    throw ShapeError(
        str("[GLU] axis ", axis_, " of ", x.shape(), " has an odd size, ", n, at_line()));
  return glu(std::move(x), axis_);
}
Tensor Softmax::forward(Tensor x) { return softmax(std::move(x), axis_); }
Tensor LogSoftmax::forward(Tensor x) { return log_softmax(std::move(x), axis_); }
Tensor Softmin::forward(Tensor x) { return softmax(neg(std::move(x)), axis_); }
Tensor Softmax2d::forward(Tensor x) {
  if (x.ndim() != 3 && x.ndim() != 4)
    throw ShapeError(str("[Softmax2d] x must have 3 or 4 axes, got ", x.shape(), at_line()));
  return softmax(std::move(x), -3);
}

PReLU::PReLU(const PReLUOptions& o, const CallLine&)
    : weight(add("weight", detail::make_constant(
                               {detail::at_least_1("PReLU", "num_parameters", o.num_parameters)},
                               o.dtype, o.init))) {}

Tensor PReLU::forward(Tensor x) {
  const i64 n = weight.tensor().numel(), channels = x.ndim() < 2 ? 1 : x.size(1);
  if (n > 1 && channels != n)
    throw ShapeError(str("[PReLU] x ", x.shape(), " has ", channels, " channels, weight has ", n,
                         " parameters", at_line()));
  return prelu(std::move(x), weight);
}

LeakyReLU::LeakyReLU(double slope) : slope_(slope) {}
ELU::ELU(double alpha) : alpha_(alpha) {}
GELU::GELU(Approximate approximate) : approximate_(approximate) {}
Hardshrink::Hardshrink(double lambda) : lambda_(lambda) {}
Threshold::Threshold(double threshold, double value) : threshold_(threshold), value_(value) {}
GLU::GLU(i64 axis) : axis_(axis) {}
Softmax::Softmax(i64 axis) : axis_(axis) {}
LogSoftmax::LogSoftmax(i64 axis) : axis_(axis) {}
Softmin::Softmin(i64 axis) : axis_(axis) {}

}  // namespace wt::nn
