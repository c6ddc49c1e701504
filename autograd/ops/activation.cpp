// Activations with parameters, and those that write in place. The maths is in
// kernels/pointwise_activations.h.
#include <limits>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/number_operand.h"
#include "warptape/autograd/ops/internal/pointwise_call.h"
#include "warptape/core/numbers/scalar_as.h"

namespace wt {

using elementwise::kEntry;

namespace {

// A bound beyond all values of an integer dtype is none, unless it is on the side where it would be
// the result.
void check_bound(const char* op, DType t, Scalar bound, bool low, Frame at) {
  if (is_integral(t) && computes(t) && (low ? bound.f > 0 : bound.f < 0))
    detail::require_held(op, t, bound, at);
}

// The bounds as elements of dtype t: at one of them x equals it.
pw::Clamp bounds_in(DType t, Scalar lo, Scalar hi) {
  if (computes(t)) lo = detail::compared(t, lo), hi = detail::compared(t, hi);
  return {{}, lo.f, hi.f, lo.i, hi.i};
}

constexpr i64 kMost = std::numeric_limits<i64>::max();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Scalar unbounded(bool low) {
  Scalar v(low ? -kInf : kInf);
  v.i = low ? -kMost - 1 : kMost;
  return v;
}
// One bound, an integer tensor's too: of the number with the tensor's name and line.
Tensor one_bound(const In& x, Scalar bound, bool low) {
  DType t{};
  if (x.impl()) {
    t = elementwise::dtype_with_number(dtype_of(x.impl()), bound);
    check_bound("clamp", t, bound, low, x.frame());
    elementwise::convert(x, t);
  }
  const Scalar other = unbounded(!low);
  return elementwise::unary(kEntry<pw::Clamp>, x,
                            low ? bounds_in(t, bound, other) : bounds_in(t, other, bound));
}

}  // namespace

// --- with parameters ---

Tensor clamp(const In& x, Scalar lo, Scalar hi) {
  DType t{};
  if (x.impl()) {
    t = elementwise::dtype_with_number(dtype_of(x.impl()), lo);
    t = elementwise::dtype_with_number(t, hi);
    check_bound("clamp", t, lo, true, x.frame());
    check_bound("clamp", t, hi, false, x.frame());
    elementwise::convert(x, t);
  }
  return elementwise::unary(kEntry<pw::Clamp>, x, bounds_in(t, lo, hi));
}

Tensor clamp(const In& x, const ClampOptions& o) {
  if (o.min && o.max) return clamp(x, *o.min, *o.max);
  if (o.min) return one_bound(x, *o.min, true);
  if (o.max) return one_bound(x, *o.max, false);
  throw UsageError(str("[clamp] needs a bound, min or max\n  at ", describe(x.frame())));
}

Tensor clamp(const In& x, const In& lo, const In& hi) {
  const elementwise::Entry& e = kEntry<pw::Clamp>;
  CompositeScope s(e.info, x, lo, hi, Types::promote);
  elementwise::check_domain(s, e);
  const Shape shape = elementwise::common_shape(s, s.geometry(0), s.geometry(1));
  Geometry g = s.geometry(0);
  set_contiguous(g, shape.data(), shape.ndim(), s.dtype());
  (void)elementwise::common_shape(s, g, s.geometry(2));
  return s.finish(clamp_max(clamp_min(s.operand(0), s.operand(1)), s.operand(2)));
}

namespace {

// The least and the largest finite number.
double largest(DType t) {
  switch (t) {
    case DType::f64:
      return std::numeric_limits<double>::max();
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.fep127;
    default:
      return std::numeric_limits<float>::max();
  }
}

}  // namespace

Tensor nan_to_num(const In& x, const NanToNumOptions& o) {
  const double most = x.impl() ? largest(dtype_of(x.impl())) : 0;
  return elementwise::unary(
      kEntry<pw::NanToNum>, x,
      pw::NanToNum{{}, o.nan, o.posinf.value_or(most), o.neginf.value_or(-most)});
}

// A negative slope or alpha turns the output's sign around, from which the fused gradient tells the
// input's: then they are chains of operators.
Tensor leaky_relu(const In& x, double slope) {
  if (slope >= 0) return elementwise::unary(kEntry<pw::LeakyRelu>, x, pw::LeakyRelu{{}, slope});
  CompositeScope s(kEntry<pw::LeakyRelu>.info, x);
  const Tensor t = s.operand(0);
  return s.finish(where(gt(t, 0), t, t * slope));
}

Tensor elu(const In& x, double alpha) {
  if (alpha >= 0) return elementwise::unary(kEntry<pw::Elu>, x, pw::Elu{{}, alpha});
  CompositeScope s(kEntry<pw::Elu>.info, x);
  const Tensor t = s.operand(0);
  return s.finish(where(gt(t, 0), t, expm1(minimum(t, 0)) * alpha));
}

namespace {

void check_softplus(const char* op, double beta, Frame at) {
  if (!(beta > 0))
    throw UsageError(str("[", op, "] beta must be above 0, got ", beta, "\n  at ", describe(at)));
}

}  // namespace

Tensor softplus(const In& x, double beta, double threshold) {
  check_softplus("softplus", beta, x.frame());
  return elementwise::unary(kEntry<pw::Softplus>, x, pw::Softplus{{}, beta, threshold});
}

// --- in place ---

namespace info {
constexpr elementwise::InPlace clamp_ = elementwise::in_place_of<pw::Clamp>("clamp_");
constexpr elementwise::InPlace elu_ = elementwise::in_place_of<pw::Elu>("elu_");
constexpr elementwise::InPlace gelu_ = elementwise::in_place_of<pw::Gelu>("gelu_");
constexpr elementwise::InPlace hardsigmoid_ =
    elementwise::in_place_of<pw::Hardsigmoid>("hardsigmoid_");
constexpr elementwise::InPlace hardswish_ = elementwise::in_place_of<pw::Hardswish>("hardswish_");
constexpr elementwise::InPlace leaky_relu_ = elementwise::in_place_of<pw::LeakyRelu>("leaky_relu_");
constexpr elementwise::InPlace mish_ = elementwise::in_place_of<pw::Mish>("mish_");
constexpr elementwise::InPlace relu_ = elementwise::in_place_of<pw::Relu>("relu_");
constexpr elementwise::InPlace sigmoid_ = elementwise::in_place_of<pw::Sigmoid>("sigmoid_");
constexpr elementwise::InPlace silu_ = elementwise::in_place_of<pw::Silu>("silu_");
constexpr elementwise::InPlace softplus_ = elementwise::in_place_of<pw::Softplus>("softplus_");
constexpr elementwise::InPlace tanh_ = elementwise::in_place_of<pw::Tanh>("tanh_");
}  // namespace info

#define WT_IN_PLACE(name)                                               \
  Tensor& Tensor::name(Frame at)& {                                     \
    checked(at);                                                        \
    write_in_place(info::name, *this, elementwise::NoParameters{}, at); \
    return *this;                                                       \
  }                                                                     \
  Tensor Tensor::name(Frame at)&& {                                     \
    name(at);                                                           \
    return std::move(*this);                                            \
  }
WT_IN_PLACE(gelu_)
WT_IN_PLACE(hardsigmoid_)
WT_IN_PLACE(hardswish_)
WT_IN_PLACE(mish_)
WT_IN_PLACE(relu_)
WT_IN_PLACE(sigmoid_)
WT_IN_PLACE(silu_)
WT_IN_PLACE(tanh_)
#undef WT_IN_PLACE

Tensor& Tensor::clamp_(Scalar lo, Scalar hi, Frame at) & {
  checked(at);
  const DType t = elementwise::dtype_with_number(elementwise::dtype_with_number(dtype(), lo), hi);
  if (t != dtype())
    throw DtypeError(str("[clamp_] the result would be ", dtype_name(t), ", the tensor is ",
                         wt::describe(*this), "\n  at ", describe(at)));
  check_bound("clamp_", t, lo, true, at);
  check_bound("clamp_", t, hi, false, at);
  write_in_place(info::clamp_, *this, bounds_in(t, lo, hi), at);
  return *this;
}

namespace {

// In place there is no input left to tell the sign from.
void check_positive(const char* op, const char* argument, double v, Frame at) {
  if (!(v >= 0))
    throw UsageError(str("[", op, "] ", argument, " must be at least 0 in place, got ", v,
                         "\n  at ", describe(at)));
}

}  // namespace

Tensor& Tensor::leaky_relu_(double slope, Frame at) & {
  checked(at);
  check_positive("leaky_relu_", "slope", slope, at);
  write_in_place(info::leaky_relu_, *this, pw::LeakyRelu{{}, slope}, at);
  return *this;
}
Tensor& Tensor::elu_(double alpha, Frame at) & {
  checked(at);
  check_positive("elu_", "alpha", alpha, at);
  write_in_place(info::elu_, *this, pw::Elu{{}, alpha}, at);
  return *this;
}
Tensor& Tensor::softplus_(double beta, double threshold, Frame at) & {
  checked(at);
  check_softplus("softplus_", beta, at);
  write_in_place(info::softplus_, *this, pw::Softplus{{}, beta, threshold}, at);
  return *this;
}

Tensor Tensor::clamp_(Scalar lo, Scalar hi, Frame at) && {
  clamp_(lo, hi, at);
  return std::move(*this);
}
Tensor Tensor::leaky_relu_(double slope, Frame at) && {
  leaky_relu_(slope, at);
  return std::move(*this);
}
Tensor Tensor::elu_(double alpha, Frame at) && {
  elu_(alpha, at);
  return std::move(*this);
}
Tensor Tensor::softplus_(double beta, double threshold, Frame at) && {
  softplus_(beta, threshold, at);
  return std::move(*this);
}

namespace detail {
OpSavings activation_savings() {
  using elementwise::saving_of_entry;
  static constexpr OpSaving kSavings[] = {
      saving_of_entry<pw::Clamp>(),
      saving_of_entry<pw::Elu>(),
      saving_of_entry<pw::LeakyRelu>(),
      saving_of_entry<pw::NanToNum>(),
      saving_of_entry<pw::Softplus>(),
      saving_of_entry<pw::Clamp>(info::clamp_.info),
      saving_of_entry<pw::Elu>(info::elu_.info),
      saving_of_entry<pw::Gelu>(info::gelu_.info),
      saving_of_entry<pw::Hardsigmoid>(info::hardsigmoid_.info),
      saving_of_entry<pw::Hardswish>(info::hardswish_.info),
      saving_of_entry<pw::LeakyRelu>(info::leaky_relu_.info),
      saving_of_entry<pw::Mish>(info::mish_.info),
      saving_of_entry<pw::Relu>(info::relu_.info),
      saving_of_entry<pw::Sigmoid>(info::sigmoid_.info),
      saving_of_entry<pw::Silu>(info::silu_.info),
      saving_of_entry<pw::Softplus>(info::softplus_.info),
      saving_of_entry<pw::Tanh>(info::tanh_.info),
  };
  return kSavings;
}

OpInfos activation_ops() {
  static constexpr const OpInfo* kOps[] = {
      &kEntry<pw::NanToNum>.info, &kEntry<pw::Clamp>.info,
      &kEntry<pw::Elu>.info,      &kEntry<pw::LeakyRelu>.info,
      &kEntry<pw::Softplus>.info, &info::clamp_.info,
      &info::elu_.info,           &info::gelu_.info,
      &info::hardsigmoid_.info,   &info::hardswish_.info,
      &info::leaky_relu_.info,    &info::mish_.info,
      &info::relu_.info,          &info::sigmoid_.info,
      &info::silu_.info,          &info::softplus_.info,
      &info::tanh_.info,
  };
  return kOps;
}
}  // namespace detail

}  // namespace wt
