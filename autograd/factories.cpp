// Sequences of numbers. Kernels make them (kernels/sequence.h), so these factories of
// core/factories.h are defined here, above the kernels.
#include "warptape/kernels/sequence.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/factory.h"
#include "warptape/core/numbers/scalar_as.h"
#include "warptape/kernels/run.h"

namespace wt {

static Tensor made(const Shape& shape, DType t, TensorOptions o, Frame at, SequenceArgs a) {
  if (is_floating(t) && !computes(t))
    throw DtypeError(str("[factory] ", dtype_name(t), " is for storage only"));
  o.dtype = t;
  Tensor out = empty(shape, o, at);
  if (out.numel() == 0 || o.device.is_meta) return out;
  a.out = view_of(out.impl());
  run(a, {nullptr, mode.native_stream, nullptr, o.device});
  return out;
}

Tensor eye(i64 n, i64 m, const TensorOptions& o, Frame at) {
  if (n < 0 || m < 0) throw ShapeError(str("[eye] a negative size: ", n < 0 ? n : m));
  return made({n, m}, detail::dtype_or_default(o), o, at, {.kind = SequenceKind::identity});
}
Tensor eye(i64 n, const TensorOptions& o, Frame at) { return eye(n, n, o, at); }

// A double has no integer between 2^53 and 2^53 + 2.
static bool is_whole(Scalar v) { return v.kind != Scalar::Kind::floating; }
static i64 count_of(Scalar begin, Scalar end, Scalar step) {
  const bool up = step.f > 0;
  const Scalar low = up ? begin : end, high = up ? end : begin;
  if (!(low.f < high.f || (low.f == high.f && u64(low.i) < u64(high.i)))) return 0;
  const u64 span = u64(high.i) - u64(low.i), stride = up ? u64(step.i) : u64(0) - u64(step.i);
  return i64((span - 1) / stride + 1);
}

// In memory of integers what does not fit would wrap.
static void check_held(const char* op, DType t, Scalar v, Frame at) {
  if (is_integral(t)) detail::require_held(op, t, v, at);
}

Tensor arange(Scalar begin, Scalar end, Scalar step, const TensorOptions& o, Frame at) {
  const bool integer = is_whole(begin) && is_whole(end) && is_whole(step);
  const double steps = (end.f - begin.f) / step.f;
  if (step.f == 0 || !std::isfinite(steps))
    throw UsageError("[arange] the step must be finite and not zero");
  if (steps > 0x1p62)
    throw ShapeError(str("[arange] ", steps, " elements overflow 64 bits\n  at ", describe(at)));
  const i64 n = integer ? count_of(begin, end, step) : i64(std::max(0.0, std::ceil(steps)));
  const DType t = o.dtype.value_or(integer ? DType::i64 : mode.default_dtype);
  if (n > 0) {
    Scalar last = integer ? begin : Scalar(begin.f + double(n - 1) * step.f);
    if (integer) {
      last.i = i64(u64(begin.i) + u64(n - 1) * u64(step.i));
      last.f = begin.f + double(n - 1) * step.f;  // whose sign tells a u64 from a negative number
    }
    check_held("arange", t, begin, at);
    check_held("arange", t, last, at);
  }
  if (integer)
    return made({n}, t, o, at, {.kind = SequenceKind::integers, .first = begin.i, .step = step.i});
  return made({n}, t, o, at, {.kind = SequenceKind::reals, .begin = begin.f, .stride = step.f});
}
Tensor arange(Scalar end, const TensorOptions& o, Frame at) { return arange(0, end, 1, o, at); }

// Integers in memory of integers: a quotient of doubles could fall short of a whole number, which
// cutting would make the one below.
static bool are_whole(Scalar begin, Scalar end, i64 n, DType t) {
  const auto fits = [](Scalar v) { return std::abs(v.f) < 0x1p62 && std::trunc(v.f) == v.f; };
  return is_integral(t) && n > 1 && n < i64{1} << 31 && fits(begin) && fits(end);
}

Tensor linspace(Scalar begin, Scalar end, i64 n, const TensorOptions& o, Frame at) {
  if (n < 0) throw ShapeError(str("[linspace] a negative number of values: ", n));
  const DType t = detail::dtype_or_default(o);
  if (n > 0) check_held("linspace", t, begin, at);
  if (n > 1) check_held("linspace", t, end, at);
  if (are_whole(begin, end, n, t))
    return made({n}, t, o, at,
                {.kind = SequenceKind::whole, .first = begin.to_int(), .step = end.to_int()});
  return made({n}, t, o, at,
              {.kind = SequenceKind::between,
               .begin = begin.f,
               .end = end.f,
               .stride = n > 1 ? (end.f - begin.f) / double(n - 1) : 0});
}

}  // namespace wt
