// Elementwise operators made of others. 16-bit floats are widened first: the parts are not rounded.
#include "warptape/autograd/ops/composite_pointwise.h"

#include <limits>
#include <optional>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/number_operand.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"

namespace wt {
namespace info {
constexpr OpInfo exp2{.name = "exp2", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo xlogy{.name = "xlogy", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo addcmul{.name = "addcmul", .autocast = Autocast::promote, .composite = true};
constexpr OpInfo addcdiv{.name = "addcdiv", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo isclose{.name = "isclose", .derivative = Derivative::none, .composite = true};
}  // namespace info

namespace {

bool has_16_bits(DType t) { return is_floating(t) && computes(t) && item_size(t) == 2; }
Tensor widened_operand(const CompositeScope& s, int i) {
  const Tensor x = s.operand(i);
  return has_16_bits(x.dtype()) ? to_dtype(x, f32) : x;
}
// To the operands' dtype, or to the one that a wider 0-d operand must not change.
Tensor narrowed(const CompositeScope& s, Tensor y, std::optional<DType> beside) {
  if (beside) return to_dtype(std::move(y), *beside);
  return has_16_bits(s.dtype()) ? to_dtype(std::move(y), s.dtype()) : y;
}

// Throws in the operator's name what its parts would throw in theirs.
void check_numbers(const CompositeScope& s) {
  if (!computes(s.dtype()))
    s.fail<DtypeError>(str(dtype_name(s.dtype()), " is for storage only and does not compute"));
  Shape shape = shape_of(s.geometry(0));
  for (int i = 1; i < s.size(); ++i) shape = broadcast_operands(s, shape, shape_of(s.geometry(i)));
}

Tensor times_value(Tensor x, Scalar value) {
  return value.to_double() == 1 ? x : mul(std::move(x), value);
}

// The same values, and no two of them made equal, in a dtype that computes.
Tensor computing(const Tensor& x) {
  if (computes(x.dtype())) return x;
  return x.to(is_floating(x.dtype()) ? f32 : DType::i64);
}
// 16 bits would round the tolerance.
Tensor widened_float(const Tensor& x) {
  if (x.dtype() == f32 || x.dtype() == f64) return x;
  return x.to(is_floating(x.dtype()) ? f32 : f64);
}
// |x - y| of integers in f64, rounded after the subtraction and not before: as 64 bits, which hold
// it modulo 2^64.
Tensor distance_of_integers(const Tensor& x, const Tensor& y) {
  const auto ordered = [](const Tensor& t) {
    const Tensor whole = t.to(DType::i64);  // of u64 the bits
    return t.dtype() == DType::u64 ? bitwise_xor(whole, std::numeric_limits<i64>::min()) : whole;
  };
  const Tensor a = ordered(x), b = ordered(y), apart = sub(maximum(a, b), minimum(a, b));
  const Tensor wide = apart.to(f64);
  return where(lt(apart, 0), wide + 0x1p64, wide);
}
Tensor distance_of(const Tensor& x, const Tensor& y) {
  if (!is_floating(x.dtype())) return distance_of_integers(x, y);
  return abs(widened_float(x) - widened_float(y));
}

}  // namespace

// exp(x log 2) would have the rounding of x log 2, as often as the exponent is large.
Tensor exp2(const In& x) {
  CompositeScope s(info::exp2, x);
  check_numbers(s);
  return s.finish(pow(2.0, s.operand(0)));
}

Tensor xlogy(const In& a, const In& b) {
  const In* const both[] = {&a, &b};
  const std::optional<DType> beside = detail::widen_beside(info::xlogy, both, 2);
  CompositeScope s(info::xlogy, a, b, Types::promote);
  check_numbers(s);
  const Tensor x = widened_operand(s, 0), y = widened_operand(s, 1), values = y.detach();
  // Where a is 0 and the logarithm not finite it is that of 1: the product would be NaN. So both
  // gradients are 0 there; where it is finite a's is the logarithm.
  const Tensor endless = logical_or(le(values, 0), eq(values, INFINITY));
  const Tensor zero = logical_and(eq(x.detach(), 0), endless);
  return s.finish(narrowed(s, mul(x, log(where(zero, 1, y))), beside));
}

Tensor addcmul(const In& x, const In& a, const In& b, const AddcOptions& options) {
  const In* const all[] = {&x, &a, &b};
  const std::optional<DType> beside = detail::widen_beside(info::addcmul, all, 3);
  CompositeScope s(info::addcmul, x, a, b, Types::promote);
  check_numbers(s);
  Tensor y = times_value(mul(widened_operand(s, 1), widened_operand(s, 2)), options.value);
  return s.finish(narrowed(s, add(widened_operand(s, 0), std::move(y)), beside));
}

Tensor addcdiv(const In& x, const In& a, const In& b, const AddcOptions& options) {
  const In* const all[] = {&x, &a, &b};
  const std::optional<DType> beside = detail::widen_beside(info::addcdiv, all, 3);
  CompositeScope s(info::addcdiv, x, a, b, Types::promote);
  check_numbers(s);
  Tensor y = div(times_value(widened_operand(s, 1), options.value), widened_operand(s, 2));
  return s.finish(narrowed(s, add(widened_operand(s, 0), std::move(y)), beside));
}

Tensor isclose(const In& a, const In& b, const IscloseOptions& o) {
  CompositeScope s(info::isclose, a, b, Types::same);
  if (!(o.rtol >= 0) || !(o.atol >= 0))
    s.fail<UsageError>(str("rtol and atol must be at least 0, got ", o.rtol, " and ", o.atol));
  broadcast_operands(s, shape_of(s.geometry(0)), shape_of(s.geometry(1)));
  const NoGrad no_grad;
  const Tensor p = s.operand(0), q = s.operand(1);
  const Tensor x = widened_float(p), y = widened_float(q), distance = distance_of(p, q);
  // An infinite distance is within an infinite tolerance, which rtol makes of an infinite y.
  const Tensor near = logical_and(isfinite(distance), le(distance, abs(y) * o.rtol + o.atol));
  Tensor close = logical_or(near, eq(computing(p), computing(q)));
  if (o.equal_nan) close = logical_or(close, logical_and(isnan(x), isnan(y)));
  return s.finish(std::move(close));
}

namespace detail {
OpInfos composite_pointwise_ops() {
  static constexpr const OpInfo* kOps[] = {&info::exp2, &info::xlogy, &info::addcmul,
                                           &info::addcdiv, &info::isclose};
  return kOps;
}
}  // namespace detail

}  // namespace wt
