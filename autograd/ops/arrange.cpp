// Rearranging. What can be told by views and joins is made of them; windows, reversal and writing
// into a part have nodes of their own, because their gradients would cost more than needed.
#include "warptape/autograd/ops/arrange.h"

#include <deque>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/unfold.h"

namespace wt {
namespace info {
constexpr OpInfo unfold{.name = "unfold", .derivative = Derivative::linear, .view = true};
constexpr OpInfo unfold_backward{.name = "unfold_backward", .derivative = Derivative::linear};
constexpr OpInfo chunk{
    .name = "chunk", .derivative = Derivative::linear, .view = true, .composite = true};
constexpr OpInfo unbind{
    .name = "unbind", .derivative = Derivative::linear, .view = true, .composite = true};
constexpr OpInfo movedim{
    .name = "movedim", .derivative = Derivative::linear, .view = true, .composite = true};
constexpr OpInfo meshgrid{
    .name = "meshgrid", .derivative = Derivative::linear, .view = true, .composite = true};
constexpr OpInfo repeat{.name = "repeat", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo repeat_interleave{
    .name = "repeat_interleave", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo flip{.name = "flip", .derivative = Derivative::linear};
constexpr OpInfo roll{.name = "roll", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo slice_scatter{.name = "slice_scatter", .derivative = Derivative::linear};
constexpr OpInfo select_scatter{
    .name = "select_scatter", .derivative = Derivative::linear, .composite = true};
}  // namespace info

namespace {

// --- unfold ---
struct Windows {
  int axis;
  i64 size, step;
};

i64 axis_size(const Shape& shape, int axis) { return shape.empty() ? 1 : shape[axis]; }

// Throws ShapeError in the operator's name.
Windows windows_of(const OpScope& s, const Shape& shape, i64 axis, i64 size, i64 step) {
  const Windows w{s.axis(axis, shape.ndim()), size, step};
  const i64 n = axis_size(shape, w.axis);
  if (step < 1) s.fail<ShapeError>(str("the step must be at least 1, got ", step));
  if (size < 1 || size > n)
    s.fail<ShapeError>(
        str("the size must be in [1, ", n, "], the size of axis ", w.axis, ", got ", size));
  return w;
}
// The shape of the windows of a tensor of `shape`.
Shape unfolded(const OpScope& s, Shape shape, const Windows& w) {
  if (shape.ndim() == kMaxDims)
    s.fail<ShapeError>(
        str("the result would have ", kMaxDims + 1, " dimensions, at most ", kMaxDims));
  if (!shape.empty()) shape[w.axis] = (shape[w.axis] - w.size) / w.step + 1;
  shape.push_back(w.size);
  check_numel(s, shape);
  return shape;
}

void unfold_node_backward(Backward& g) {
  const auto w = g.attribute<Windows>();
  g.put(0, unfold_backward(g.take_grad(), g.input_shape(0), w.axis, w.size, w.step));
}
void unfold_backward_node_backward(Backward& g) {
  const auto w = g.attribute<Windows>();
  g.put(0, unfold(g.take_grad(), w.axis, w.size, w.step));
}

}  // namespace

Tensor unfold(const In& x, i64 axis, i64 size, i64 step) {
  OpScope s(info::unfold, x);
  const Geometry& g = s.geometry(0);
  const Windows w = windows_of(s, shape_of(g), axis, size, step);
  const Shape shape = unfolded(s, shape_of(g), w);
  Shape strides = strides_of(g);
  strides.push_back(g.ndim ? g.strides[w.axis] : 1);
  // One window alone may have a step of any size.
  if (g.ndim) strides[w.axis] = shape[w.axis] > 1 ? g.strides[w.axis] * step : g.strides[w.axis];
  Result y = s.view_result(geometry_with(g, shape, strides), 0);
  s.record(unfold_node_backward);
  s.set_attribute(w);
  return s.finish(std::move(y));
}

Tensor unfold_backward(const In& gout, const Shape& shape, i64 axis, i64 size, i64 step) {
  OpScope s(info::unfold_backward, gout);
  const Windows w = windows_of(s, shape, axis, size, step);
  if (!is_floating(s.dtype()) || !computes(s.dtype()))
    s.fail<DtypeError>(str("expected a gradient of floats, got ", dtype_name(s.dtype())));
  const Shape wanted = unfolded(s, shape, w);
  if (shape_of(s.geometry(0)) != wanted)
    s.fail<ShapeError>(str("the windows of a tensor of shape ", shape, " have shape ", wanted));
  Result y = s.result(shape, s.dtype());
  s.record(unfold_backward_node_backward);
  s.set_attribute(w);
  run(UnfoldBackwardArgs{y.view(), s.view(0), w.axis, step}, s.launch());
  return s.finish(std::move(y));
}

// --- pieces and other views ---

std::vector<Tensor> chunk(const In& x, i64 chunks, i64 axis) {
  CompositeScope s(info::chunk, x);
  const Geometry& g = s.geometry(0);
  if (g.ndim == 0) s.fail<ShapeError>("needs at least one dimension");
  if (chunks < 1) s.fail<ShapeError>(str("chunks must be at least 1, got ", chunks));
  const int a = s.axis(axis, g.ndim);
  const i64 n = g.shape[a], size = n == 0 ? 0 : (n - 1) / chunks + 1;
  constexpr i64 kMost = 1 << 16;  // of an axis without elements every piece is one more tensor
  if (n == 0 && chunks > kMost)
    s.fail<ShapeError>(str("axis ", a, " has no elements for ", chunks, " pieces"));
  const Tensor t = s.operand(0);
  std::vector<Tensor> parts;
  if (n == 0) parts.assign(size_t(chunks), t);
  for (i64 i = 0; i < n; i += size) parts.push_back(slice(t, a, {i, std::min(i + size, n)}));
  return s.finish(std::move(parts));
}

std::vector<Tensor> unbind(const In& x, i64 axis) {
  CompositeScope s(info::unbind, x);
  const Geometry& g = s.geometry(0);
  if (g.ndim == 0) s.fail<ShapeError>("needs at least one dimension");
  const int a = s.axis(axis, g.ndim);
  const Tensor t = s.operand(0);
  std::vector<Tensor> parts;
  for (i64 i = 0; i < g.shape[a]; ++i) parts.push_back(select(t, a, i));
  return s.finish(std::move(parts));
}

Tensor movedim(const In& x, const Dims& source, const Dims& destination) {
  CompositeScope s(info::movedim, x);
  const int n = s.geometry(0).ndim;
  if (source.is_all() || destination.is_all() || source.size() != destination.size())
    s.fail<ShapeError>(str("source and destination must name equally many axes, got ",
                           source.size(), " and ", destination.size()));
  const u32 moved = s.axes(source, n);
  s.axes(destination, n);  // refuses repeats
  std::vector<i64> order(size_t(n), -1);
  if (n > 0)
    for (int i = 0; i < int(source.size()); ++i)
      order[size_t(s.axis(destination[i], n))] = s.axis(source[i], n);
  int next = 0;
  for (i64& from : order) {
    if (from >= 0) continue;
    while (moved >> next & 1) ++next;
    from = next++;
  }
  return s.finish(permute(s.operand(0), order));
}

std::vector<Tensor> meshgrid(std::span<const Tensor> lists, MeshgridOptions options, Frame at) {
  if (lists.empty()) throw UsageError(str("[meshgrid] no tensors given\n  at ", describe(at)));
  std::deque<In> in;
  std::vector<const In*> pointers;
  for (const Tensor& t : lists) in.emplace_back(t, at.file, at.line);
  for (const In& i : in) pointers.push_back(&i);
  const In* const* const operands = pointers.data();
  CompositeScope s(info::meshgrid, operands, int(lists.size()), Types::same);
  if (lists.size() > size_t(kMaxDims))
    s.fail<ShapeError>(str("at most ", kMaxDims, " lists, got ", lists.size()));
  const bool swap = options.indexing == Indexing::xy && lists.size() > 1;
  const auto axis_of = [&](int k) { return swap && k < 2 ? 1 - k : k; };
  Shape shape;
  for (int k = 0; k < s.size(); ++k) shape.push_back(1);
  const Shape ones = shape;
  for (int k = 0; k < s.size(); ++k) {
    if (s.geometry(k).ndim > 1)
      s.fail<ShapeError>(
          str("list ", k, " must be 1-d or 0-d, got ", int(s.geometry(k).ndim), " dimensions"));
    shape[axis_of(k)] = s.geometry(k).numel;
  }
  check_numel(s, shape);
  std::vector<Tensor> grids;
  for (int k = 0; k < s.size(); ++k) {
    Shape own = ones;
    own[axis_of(k)] = s.geometry(k).numel;
    grids.push_back(expand(reshape(s.operand(k), own), shape));
  }
  return s.finish(std::move(grids));
}
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> lists, MeshgridOptions options,
                             Frame at) {
  return meshgrid(std::span(lists.begin(), lists.size()), options, at);
}

// --- repetition ---
namespace {

// The axis taken out: its size, and the sizes before and after it multiplied.
struct Around {
  i64 before = 1, n = 1, after = 1;
  Around(const Shape& shape, int axis) {
    for (int d = 0; d < shape.ndim(); ++d) (d < axis ? before : d == axis ? n : after) *= shape[d];
  }
};

Tensor repeated_along(Tensor t, int axis, i64 times) {
  Shape shape = t.shape();
  const Around a(shape, axis);
  shape[axis] *= times;
  if (a.n == 1) return expand(std::move(t), shape);
  return reshape(
      expand(reshape(std::move(t), {a.before, 1, a.n * a.after}), {a.before, times, a.n * a.after}),
      shape);
}

Tensor interleaved_along(CompositeScope& s, const Tensor& x, Tensor t, int axis, i64 times) {
  Shape shape = t.shape();
  if (times < 0) s.fail<ShapeError>(str("repeats must be at least 0, got ", times));
  if (!mul_fits(shape[axis], times, shape[axis]))
    s.fail<ShapeError>(str("repeats is ", times, ": the size of axis ", axis, " overflows"));
  check_numel(s, shape);
  const Around a(t.shape(), axis);
  t = reshape(
      expand(reshape(std::move(t), {a.before * a.n, 1, a.after}), {a.before * a.n, times, a.after}),
      shape);
  return s.finish(own_copy(std::move(t), x));
}

}  // namespace

Tensor repeat(const In& x, const Shape& repeats) {
  CompositeScope s(info::repeat, x);
  const Geometry& g = s.geometry(0);
  const int lead = repeats.ndim() - g.ndim;
  if (lead < 0)
    s.fail<ShapeError>(str("repeats ", repeats, " has fewer entries than the ", int(g.ndim),
                           " dimensions of the tensor"));
  Shape shape, result;
  for (int d = 0; d < repeats.ndim(); ++d) {
    shape.push_back(d < lead ? 1 : g.shape[d - lead]);
    i64 size = 0;
    if (repeats[d] < 0 || !mul_fits(shape[d], repeats[d], size))
      s.fail<ShapeError>(str("repeats ", repeats, ": entry ", d, " is negative or too large"));
    result.push_back(size);
  }
  check_numel(s, result);
  const Tensor self = s.operand(0);
  Tensor t = reshape(self, shape);
  // Axes of one element last: they are repeated without a copy.
  for (const bool single : {false, true})
    for (int d = repeats.ndim(); d-- > 0;)
      if (repeats[d] != 1 && (shape[d] == 1) == single)
        t = repeated_along(std::move(t), d, repeats[d]);
  return s.finish(own_copy(contiguous(std::move(t)), self));
}

Tensor repeat_interleave(const In& x, i64 repeats) {
  CompositeScope s(info::repeat_interleave, x);
  const Tensor t = s.operand(0);
  return interleaved_along(s, t, flatten(t), 0, repeats);
}

Tensor repeat_interleave(const In& x, i64 repeats, i64 axis) {
  CompositeScope s(info::repeat_interleave, x);
  const Tensor t = s.operand(0);
  const int a = s.axis(axis, t.ndim());
  return interleaved_along(s, t, t.ndim() == 0 ? reshape(t, {1}) : t, a, repeats);
}

// --- other orders ---
namespace {
void flip_backward(Backward& g) {
  const u32 mask = g.attribute<u32>();
  std::vector<int> axes;
  for (int d = 0; d < kMaxDims; ++d)
    if (mask >> d & 1) axes.push_back(d);
  g.put(0, flip(g.take_grad(), axes));
}
}  // namespace

Tensor flip(const In& x, const Dims& dims) {
  OpScope s(info::flip, x);
  const u32 mask = s.axes(dims, s.geometry(0).ndim);
  Result y = result_ordered_like(s, 0, shape_of(s.geometry(0)));
  s.record(flip_backward);
  s.set_attribute(mask);
  // Read from the last element on, backwards: a view that only this copy sees.
  Window reversed(s.view(0));
  Geometry& g = reversed.geometry;
  for (int d = 0; d < g.ndim; ++d) {
    if (!(mask >> d & 1) || g.numel == 0) continue;
    reversed.move_along(d, g.shape[d] - 1);
    g.strides[d] = -g.strides[d];
  }
  finish_geometry(g);
  run(CopyArgs{y.view(), reversed.view()}, s.launch());
  return s.finish(std::move(y));
}

Tensor roll(const In& x, const Dims& shifts, const Dims& dims) {
  CompositeScope s(info::roll, x);
  const Tensor self = s.operand(0);
  const bool flat = dims.is_all();
  if (shifts.is_all() || shifts.size() != (flat ? 1 : dims.size()))
    s.fail<ShapeError>(str("shifts and dims must name equally many axes, got ", shifts.size(),
                           " and ", flat ? 1 : dims.size()));
  std::vector<int> axes;  // an axis may be rolled twice
  for (int i = 0; !flat && i < int(dims.size()); ++i) axes.push_back(s.axis(dims[i], self.ndim()));
  Tensor t = flat || self.ndim() == 0 ? flatten(self) : self;
  if (flat) axes = {0};
  for (size_t i = 0; i < axes.size(); ++i) {
    const i64 n = t.size(axes[i]);
    if (n == 0) continue;
    const i64 shift = (shifts[int(i)] % n + n) % n;
    if (shift == 0) continue;
    t = cat({slice(t, axes[i], {n - shift, n}), slice(t, axes[i], {0, n - shift})}, axes[i]);
  }
  return s.finish(own_copy(reshape(std::move(t), self.shape()), self));
}

// --- writing into a part ---
namespace {
struct Part {
  int axis;
  Slice range;
};
void slice_scatter_backward(Backward& g) {
  const auto p = g.attribute<Part>();
  const Tensor gy = g.take_grad();
  Tensor part = slice(gy, p.axis, p.range);
  if (g.wants(0)) {
    const Tensor zero = zeros({}, {.dtype = gy.dtype(), .device = gy.device()});
    g.put(0, slice_scatter(gy, expand(zero, part.shape()), p.axis, p.range));
  }
  if (g.wants(1)) g.put(1, std::move(part));
}
}  // namespace

Tensor slice_scatter(const In& x, const In& source, i64 axis, Slice range) {
  OpScope s(info::slice_scatter, x, source);
  const Geometry& g = s.geometry(0);
  if (g.ndim == 0) s.fail<ShapeError>("a 0-d tensor cannot be sliced");
  const int a = s.axis(axis, g.ndim);
  const Part p{a, resolve_slice(s, range, g.shape[a])};
  Shape wanted = shape_of(g);
  wanted[a] = slice_length(p.range);
  if (shape_of(s.geometry(1)) != wanted)
    s.fail<ShapeError>(str("the source must have the shape of the slice, ", wanted));
  // result_like() could take over a source of x's shape, which is still to be read.
  const bool may_take = x.is_rvalue() && (!source.is_rvalue() || wanted != shape_of(g));
  Result y = may_take ? s.result_like() : result_ordered_like(s, 0, shape_of(g));
  s.record(slice_scatter_backward);
  s.set_attribute(p);
  if (!y.reuses(x)) run(CopyArgs{y.view(), s.view(0)}, s.launch());
  Window part(y.view());
  part.narrow(a, p.range.begin, wanted[a], p.range.step);
  run(CopyArgs{part.view(), s.view(1)}, s.launch());
  return s.finish(std::move(y));
}

Tensor select_scatter(const In& x, const In& source, i64 axis, i64 index) {
  CompositeScope s(info::select_scatter, x, source, Types::same);
  const Geometry& g = s.geometry(0);
  if (g.ndim == 0) s.fail<ShapeError>("needs at least one dimension");
  const int a = s.axis(axis, g.ndim);
  const i64 n = g.shape[a];
  if (index < -n || index >= n)
    s.fail<IndexError>(str("index ", index, " is outside [", -n, ", ", n, ") of axis ", a));
  Shape wanted = shape_of(g);
  wanted.erase(a);
  if (shape_of(s.geometry(1)) != wanted)
    s.fail<ShapeError>(str("the source must have the shape of the selection, ", wanted));
  const i64 i = index < 0 ? index + n : index;
  return s.finish(slice_scatter(s.operand(0), unsqueeze(s.operand(1), a), a, {i, i + 1}));
}

namespace detail {
OpInfos arrange_ops() {
  static constexpr const OpInfo* kOps[] = {
      &info::unfold, &info::unfold_backward,   &info::chunk,
      &info::unbind, &info::movedim,           &info::meshgrid,
      &info::repeat, &info::repeat_interleave, &info::flip,
      &info::roll,   &info::slice_scatter,     &info::select_scatter};
  return kOps;
}
}  // namespace detail

}  // namespace wt
