// Activations made of other operators: at the bends `where` takes the gradient of the side that
// PyTorch takes.
#include "warptape/autograd/ops/composite_activation.h"

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"

namespace wt {
namespace info {
constexpr OpInfo glu{.name = "glu", .composite = true};
constexpr OpInfo hardtanh{
    .name = "hardtanh", .derivative = Derivative::piecewise, .composite = true};
constexpr OpInfo selu{.name = "selu", .composite = true};
constexpr OpInfo celu{.name = "celu", .composite = true};
constexpr OpInfo prelu{.name = "prelu", .composite = true};
constexpr OpInfo logsigmoid{.name = "logsigmoid", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo tanhshrink{.name = "tanhshrink", .composite = true};
constexpr OpInfo softshrink{
    .name = "softshrink", .derivative = Derivative::piecewise, .composite = true};
constexpr OpInfo hardshrink{
    .name = "hardshrink", .derivative = Derivative::piecewise, .composite = true};
constexpr OpInfo threshold{
    .name = "threshold", .derivative = Derivative::piecewise, .composite = true};
}  // namespace info

namespace {

// x, of which the activation is made.
Tensor floats_of(const CompositeScope& s) {
  const DType t = s.dtype();
  if (!is_floating(t)) s.fail<DtypeError>(str("expected floats, got ", dtype_name(t)), ".to(f32)");
  if (!computes(t))
    s.fail<DtypeError>(str(dtype_name(t), " is for storage only and does not compute"));
  return s.operand(0);
}

Tensor between(const Tensor& x, double low, double high) {
  const Tensor value = x.detach();
  return where(logical_and(gt(value, low), lt(value, high)), x, clamp(value, low, high));
}

}  // namespace

Tensor glu(const In& x, i64 axis) {
  CompositeScope s(info::glu, x);
  const Tensor t = floats_of(s);
  const int a = s.axis(axis, t.ndim());
  const i64 n = t.size(a);
  if (n % 2 != 0)
    s.fail<ShapeError>(str("axis ", axis, " of ", t.shape(), " has an odd size, ", n));
  return s.finish(slice(t, a, {0, n / 2}) * sigmoid(slice(t, a, {n / 2, n})));
}

Tensor hardtanh(const In& x, double min_val, double max_val) {
  CompositeScope s(info::hardtanh, x);
  if (!(min_val < max_val))
    s.fail<UsageError>(str("min_val must be below max_val, got ", min_val, " and ", max_val));
  return s.finish(between(floats_of(s), min_val, max_val));
}

Tensor selu(const In& x) {
  constexpr double kScale = 1.0507009873554804934193349852946,
                   kAlpha = 1.6732632423543772848170429916717;
  CompositeScope s(info::selu, x);
  return s.finish(kScale * elu(floats_of(s), kAlpha));
}
Tensor celu(const In& x, double alpha) {
  CompositeScope s(info::celu, x);
  if (alpha == 0) s.fail<UsageError>("alpha must not be 0");
  return s.finish(alpha * elu(floats_of(s) / alpha));
}

Tensor prelu(const In& x, const In& weight) {
  CompositeScope s(info::prelu, x, weight, Types::same);
  const Tensor t = floats_of(s);
  Tensor w = s.operand(1);
  if (w.numel() != 1) {
    const i64 channels = t.ndim() < 2 ? 1 : t.size(1);
    if (w.ndim() != 1 || w.numel() != channels)
      s.fail<ShapeError>(str("x ", t.shape(), " has ", channels, " channels, weight has ",
                             w.numel(), " parameters"));
    Shape shape{channels};
    for (int d = 2; d < t.ndim(); ++d) shape.push_back(1);
    w = reshape(w, shape);
  } else {
    w = reshape(w, {});
  }
  return s.finish(where(gt(t.detach(), 0), t, t * w));
}

// Beyond 40 the logarithm of 1 + e^x is x in every dtype.
Tensor logsigmoid(const In& x) {
  CompositeScope s(info::logsigmoid, x);
  return s.finish(neg(softplus(neg(floats_of(s)), 1, 40)));
}
Tensor tanhshrink(const In& x) {
  CompositeScope s(info::tanhshrink, x);
  const Tensor t = floats_of(s);
  return s.finish(t - tanh(t));
}
Tensor softshrink(const In& x, double lambda) {
  CompositeScope s(info::softshrink, x);
  if (!(lambda >= 0)) s.fail<UsageError>(str("lambda must be at least 0, got ", lambda));
  const Tensor t = floats_of(s);
  return s.finish(t - clamp(t, -lambda, lambda));
}
Tensor hardshrink(const In& x, double lambda) {
  CompositeScope s(info::hardshrink, x);
  const Tensor t = floats_of(s);
  return s.finish(where(le(abs(t.detach()), lambda), 0, t));
}
Tensor threshold(const In& x, double threshold, double value) {
  CompositeScope s(info::threshold, x);
  const Tensor t = floats_of(s);
  return s.finish(where(le(t.detach(), threshold), value, t));
}

namespace detail {
OpInfos composite_activation_ops() {
  static constexpr const OpInfo* kOps[] = {
      &info::glu,        &info::hardtanh,   &info::selu,       &info::celu,       &info::prelu,
      &info::logsigmoid, &info::tanhshrink, &info::softshrink, &info::hardshrink, &info::threshold,
  };
  return kOps;
}
}  // namespace detail

}  // namespace wt
