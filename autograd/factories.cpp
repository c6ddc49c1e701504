// Sequences of numbers. Kernels make them (kernels/sequence.h), so these factories of
// core/factories.h are defined here, above the kernels.
#include "warptape/kernels/sequence.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/factory.h"
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

Tensor arange(Scalar begin, Scalar end, Scalar step, const TensorOptions& o, Frame at) {
  const bool integer = begin.kind != Scalar::Kind::floating && end.kind != Scalar::Kind::floating &&
                       step.kind != Scalar::Kind::floating;
  const double steps = (end.f - begin.f) / step.f;
  if (step.f == 0 || !std::isfinite(steps))
    throw UsageError("[arange] the step must be finite and not zero");
  if (steps > 0x1p62)
    throw ShapeError(str("[arange] ", steps, " elements overflow 64 bits\n  at ", describe(at)));
  const i64 n = i64(std::max(0.0, std::ceil(steps)));
  const DType t = o.dtype.value_or(integer ? DType::i64 : mode.default_dtype);
  if (integer)
    return made({n}, t, o, at, {.kind = SequenceKind::integers, .first = begin.i, .step = step.i});
  return made({n}, t, o, at, {.kind = SequenceKind::reals, .begin = begin.f, .stride = step.f});
}
Tensor arange(Scalar end, const TensorOptions& o, Frame at) { return arange(0, end, 1, o, at); }

Tensor linspace(double begin, double end, i64 n, const TensorOptions& o, Frame at) {
  if (n < 0) throw ShapeError(str("[linspace] a negative number of values: ", n));
  return made({n}, detail::dtype_or_default(o), o, at,
              {.kind = SequenceKind::between,
               .begin = begin,
               .end = end,
               .stride = n > 1 ? (end - begin) / double(n - 1) : 0});
}

}  // namespace wt
