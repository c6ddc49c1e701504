// Padding. With a constant it is its own gradient, with the numbers negated; the other modes are
// pieces of the tensor joined, axis by axis.
#include "warptape/autograd/ops/pad.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/internal/number_operand.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/numbers/scalar_as.h"
#include "warptape/kernels/copy.h"

namespace wt {
namespace info {
constexpr OpInfo pad{.name = "pad", .derivative = Derivative::linear};
}  // namespace info

namespace {

// By axis, negative: cropped.
struct Border {
  i64 before[kMaxDims] = {}, after[kMaxDims] = {};
};

Border border_of(const OpScope& s, std::span<const i64> pairs) {
  const int ndim = s.geometry(0).ndim;
  if (pairs.size() % 2 != 0)
    s.fail<ShapeError>(str("pairs of numbers are needed, got ", pairs.size()));
  if (pairs.size() / 2 > size_t(ndim))
    s.fail<ShapeError>(str(pairs.size() / 2, " pairs for ", ndim, " dimensions"));
  Border b;
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    b.before[ndim - 1 - int(i)] = pairs[2 * i];
    b.after[ndim - 1 - int(i)] = pairs[2 * i + 1];
  }
  return b;
}

Shape padded_shape(const OpScope& s, const Border& b) {
  Shape shape = shape_of(s.geometry(0));
  for (int d = 0; d < shape.ndim(); ++d) {
    i64 n = 0;
    if (!add_fits(shape[d], b.before[d], n) || !add_fits(n, b.after[d], n) || n < 0 ||
        shape[d] + std::min<i64>(b.before[d], 0) < 0 || shape[d] + std::min<i64>(b.after[d], 0) < 0)
      s.fail<ShapeError>(str("axis ", d, " of size ", shape[d], " cannot be padded by ",
                             b.before[d], " and ", b.after[d]));
    shape[d] = n;
  }
  check_numel(s, shape);
  return shape;
}

// --- a constant ---
void pad_backward(Backward& g) {
  const auto& b = g.attribute<Border>();
  std::vector<i64> pairs;
  for (int d = g.input_shape(0).ndim(); d-- > 0;)
    pairs.insert(pairs.end(), {-b.before[d], -b.after[d]});
  g.put(0, pad(g.take_grad(), pairs));
}

// Each element of the border once: the slabs before and after the tensor along an axis, as wide as
// the result in the axes that come later and as the tensor in those that came before.
void fill_border(const OpScope& s, const View& y, const Border& b, const Shape& inner,
                 Scalar value) {
  Window rest(y);
  const double f = detail::rounded_to(y.dtype(), value);
  const i64 whole = detail::whole_of(y.dtype(), value);
  for (int d = 0; d < inner.ndim(); ++d) {
    const i64 n = rest.geometry.shape[d], before = std::max<i64>(b.before[d], 0);
    for (const bool behind : {false, true}) {
      Window slab(rest.view());
      const i64 begin = behind ? before + inner[d] : 0;
      slab.narrow(d, begin, behind ? n - begin : before);
      if (slab.geometry.numel > 0) run(FillArgs{slab.view(), f, whole}, s.launch());
    }
    rest.narrow(d, before, inner[d]);
  }
}

Tensor pad_constant(const In& x, std::span<const i64> pairs, Scalar value) {
  OpScope s(info::pad, x);
  const Border b = border_of(s, pairs);
  detail::check_holds(s, value);
  Result y = result_ordered_like(s, 0, padded_shape(s, b));
  s.record(pad_backward);
  s.set_attribute(b);
  Window from(s.view(0)), to(y.view());
  Shape inner;
  for (int d = 0; d < from.geometry.ndim; ++d) {
    const i64 n = from.geometry.shape[d], begin = std::max<i64>(-b.before[d], 0);
    const i64 kept = std::max<i64>(n - begin + std::min<i64>(b.after[d], 0), 0);
    inner.push_back(kept);
    from.narrow(d, begin, kept);
    to.narrow(d, std::max<i64>(b.before[d], 0), kept);
  }
  fill_border(s, y.view(), b, inner, value);
  if (from.geometry.numel > 0) run(CopyArgs{to.view(), from.view()}, s.launch());
  return s.finish(std::move(y));
}

// --- pieces of the tensor itself ---
// `width` elements before (or after) the tensor along an axis.
Tensor beyond(const Tensor& t, int a, i64 width, PadMode mode, bool before) {
  const i64 n = t.size(a);
  if (mode == PadMode::circular) return slice(t, a, before ? Slice{n - width, n} : Slice{0, width});
  if (mode == PadMode::reflect)
    return flip(slice(t, a, before ? Slice{1, width + 1} : Slice{n - 1 - width, n - 1}), a);
  Shape shape = t.shape();
  shape[a] = width;
  return expand(slice(t, a, before ? Slice{0, 1} : Slice{n - 1, n}), shape);
}

void check_width(const OpScope& s, const Border& b, PadMode mode, int d) {
  const i64 n = s.geometry(0).shape[d];
  for (const i64 width : {b.before[d], b.after[d]}) {
    if (width < 0)
      s.fail<ShapeError>(str("only PadMode::constant crops, got ", width, " for axis ", d));
    if (width == 0) continue;
    const i64 most = mode == PadMode::reflect ? n - 1 : mode == PadMode::circular ? n : width;
    if (width > most || n == 0)
      s.fail<ShapeError>(str("axis ", d, " of size ", n, " gives a border of at most ",
                             n == 0 ? 0 : most, ", not ", width));
  }
}

Tensor pad_by_pieces(const In& x, std::span<const i64> pairs, PadMode mode) {
  CompositeScope s(info::pad, x);
  const Border b = border_of(s, pairs);
  const int ndim = s.geometry(0).ndim;
  for (int d = 0; d < ndim; ++d) check_width(s, b, mode, d);
  padded_shape(s, b);  // refuses what is too large
  Tensor t = s.operand(0);
  for (int d = ndim; d-- > 0;) {
    if (b.before[d] == 0 && b.after[d] == 0) continue;
    std::vector<Tensor> parts;
    if (b.before[d] > 0) parts.push_back(beyond(t, d, b.before[d], mode, true));
    parts.push_back(t);
    if (b.after[d] > 0) parts.push_back(beyond(t, d, b.after[d], mode, false));
    t = cat(parts, d);
  }
  if (t.impl() == s.impl(0)) t = clone(t);
  return s.finish(std::move(t));
}

}  // namespace

Tensor pad(const In& x, std::span<const i64> pairs, const PadOptions& options) {
  if (options.mode == PadMode::constant) return pad_constant(x, pairs, options.value);
  return pad_by_pieces(x, pairs, options.mode);
}
Tensor pad(const In& x, std::initializer_list<Dim> pairs, const PadOptions& options) {
  std::vector<i64> list;
  for (const Dim& d : pairs) list.push_back(d.value);
  return pad(x, std::span<const i64>(list), options);
}

namespace detail {
OpInfos pad_ops() {
  static constexpr const OpInfo* kOps[] = {&info::pad};
  return kOps;
}
}  // namespace detail

}  // namespace wt
