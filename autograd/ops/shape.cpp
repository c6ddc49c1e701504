// Views, and the copies that go with them. A view's node leads to the base; its backward puts the
// gradient back into the base's shape.
#include <deque>
#include <optional>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_saving.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/internal/stored_cast.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/copy_bytes.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph_capture.h"
#include "warptape/core/slices.h"
#include "warptape/kernels/copy.h"

namespace wt {
namespace info {
constexpr OpInfo view{.name = "view", .derivative = Derivative::linear, .view = true};
constexpr OpInfo transpose{.name = "transpose", .derivative = Derivative::linear, .view = true};
constexpr OpInfo permute{.name = "permute", .derivative = Derivative::linear, .view = true};
constexpr OpInfo expand{.name = "expand", .derivative = Derivative::linear, .view = true};
constexpr OpInfo squeeze{.name = "squeeze", .derivative = Derivative::linear, .view = true};
constexpr OpInfo unsqueeze{.name = "unsqueeze", .derivative = Derivative::linear, .view = true};
constexpr OpInfo select{.name = "select", .derivative = Derivative::linear, .view = true};
constexpr OpInfo slice{.name = "slice", .derivative = Derivative::linear, .view = true};
constexpr OpInfo slice_backward{.name = "slice_backward", .derivative = Derivative::linear};
constexpr OpInfo contiguous{.name = "contiguous", .derivative = Derivative::linear};
constexpr OpInfo clone{.name = "clone", .derivative = Derivative::linear};
constexpr OpInfo cat{.name = "cat", .derivative = Derivative::linear};
constexpr OpInfo reshape{.name = "reshape", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo flatten{.name = "flatten", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo split{
    .name = "split", .derivative = Derivative::linear, .view = true, .composite = true};
constexpr OpInfo stack{.name = "stack", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo to_dtype{.name = "to_dtype", .derivative = Derivative::linear};
constexpr OpInfo to_device{.name = "to_device", .derivative = Derivative::linear};
}  // namespace info

namespace {

// y is what became of x: an rvalue x is emptied.
Tensor in_place_of(const In& x, Tensor y) {
  x.take();
  return y;
}

Tensor finish_view(OpScope& s, const Geometry& g, i64 offset, BackwardFn backward) {
  Result y = s.view_result(g, offset);
  s.record(backward);
  return s.finish(std::move(y));
}

// Fills in a -1 and checks the number of elements.
Shape resolve_shape(const OpScope& s, const Shape& wanted, const Geometry& g) {
  Shape r = wanted;
  i64 known = 1;
  int open = -1;
  bool countable = true;
  for (int i = 0; i < r.ndim(); ++i) {
    if (r[i] == -1 && open < 0)
      open = i;
    else if (r[i] < 0)
      throw ShapeError(str("[", s.info().name,
                           "] one size may be -1 and the others must be at least 0: got ", wanted,
                           s.at_line()));
    else
      countable &= mul_fits(known, r[i], known);
  }
  const bool fits = countable && (open < 0 || (known != 0 && g.numel % known == 0));
  if (fits && open >= 0) r[open] = g.numel / known;
  i64 extent;
  if (!fits || !extent_fits(r.data(), r.ndim(), extent) || numel_of(r) != g.numel)
    throw ShapeError(str("[", s.info().name, "] cannot see ", g.numel, " elements of shape ",
                         shape_of(g), " as ", wanted, s.at_line()));
  return r;
}

bool has_elements(const Shape& shape, i64 numel) {
  i64 n = 1;
  for (const i64 size : shape)
    if (!mul_fits(n, size, n)) return false;
  return n == numel;
}

// Strides that show g's elements as `shape`, which has as many, without a copy: each new axis must
// lie inside a run of old axes that are contiguous among themselves.
bool view_strides(const Geometry& g, const Shape& shape, Shape& strides) {
  strides = contiguous_strides(shape);
  if (g.dense || g.numel == 0) return true;
  int old_axis = g.ndim - 1;
  i64 chunk = 1, chunk_stride = 1;  // elements left in the present run, stride of its inner end
  bool fresh = true;
  for (int i = shape.ndim(); i-- > 0;) {
    if (shape[i] == 1) {
      strides[i] = 1;
      continue;
    }
    if (fresh) {
      while (old_axis >= 0 && g.shape[old_axis] == 1) --old_axis;
      chunk = g.shape[old_axis];
      chunk_stride = g.strides[old_axis];
      i64 extent = chunk * chunk_stride;
      while (--old_axis >= 0 && (g.shape[old_axis] == 1 || g.strides[old_axis] == extent)) {
        chunk *= g.shape[old_axis];
        extent = chunk * chunk_stride;
      }
      fresh = false;
    }
    if (chunk % shape[i] != 0) return false;
    strides[i] = chunk_stride;
    chunk_stride *= shape[i];
    chunk /= shape[i];
    if (chunk == 1) fresh = true;
  }
  return true;
}

void view_backward(Backward& g) {
  const Shape shape = g.input_shape(0);
  g.put(0, reshape(g.take_grad(), shape));
}

}  // namespace

Tensor view(const In& x, const Shape& shape) {
  OpScope s(info::view, x);
  const Geometry& g = s.geometry(0);
  const Shape wanted = resolve_shape(s, shape, g);
  Shape strides;
  if (!view_strides(g, wanted, strides))
    throw ShapeError(str("[view] shape ", shape_of(g), " with strides ", strides_of(g),
                         " cannot be seen as ", shape, " without a copy", s.at_line(),
                         "\n  Try reshape"));
  return finish_view(s, geometry_with(g, wanted, strides), 0, view_backward);
}

Tensor reshape(const In& x, const Shape& shape) {
  const FrameScope frame(x.frame());
  if (!x.impl()) detail::use_of_undefined(x.frame());
  const Geometry& g = x.impl()->geometry;
  Shape strides;
  Tensor self(detail::retained(x.impl()));
  bool open = false;
  for (const i64 size : shape) open |= size == -1;
  // A shape of another number of elements is for view() to refuse.
  if (open || (!g.dense && has_elements(shape, g.numel) && !view_strides(g, shape, strides)))
    self = contiguous(std::move(self));
  return in_place_of(x, view(std::move(self), shape));
}

Tensor flatten(const In& x, i64 first, i64 last) {
  if (!x.impl()) detail::use_of_undefined(x.frame());
  const Geometry& g = x.impl()->geometry;
  const int n = std::max<int>(1, g.ndim);
  for (i64 axis : {first, last})
    if (axis < -n || axis >= n)
      throw ShapeError(str("[flatten] ", bad_axis(axis, g.ndim), "\n  at ", describe(x.frame())));
  const int a = int(first < 0 ? first + n : first), b = int(last < 0 ? last + n : last);
  if (a > b)
    throw ShapeError(str("[flatten] the first axis, ", a, ", comes after the last, ", b, "\n  at ",
                         describe(x.frame())));
  Shape shape;
  for (int i = 0; i < a; ++i) shape.push_back(g.shape[i]);
  i64 merged = 1;
  for (int i = a; i <= b && i < g.ndim; ++i) merged *= g.shape[i];
  shape.push_back(merged);
  for (int i = b + 1; i < g.ndim; ++i) shape.push_back(g.shape[i]);
  const FrameScope frame(x.frame());
  return in_place_of(x, reshape(Tensor(detail::retained(x.impl())), shape));
}

namespace {
struct Axes {
  int a, b;
};
void transpose_backward(Backward& g) {
  const Axes axes = g.attribute<Axes>();
  g.put(0, transpose(g.take_grad(), axes.a, axes.b));
}
}  // namespace

Tensor transpose(const In& x, i64 a, i64 b) {
  OpScope s(info::transpose, x);
  Geometry g = s.geometry(0);
  const Axes axes{s.axis(a, g.ndim), s.axis(b, g.ndim)};
  if (g.ndim > 0) {
    std::swap(g.shape[axes.a], g.shape[axes.b]);
    std::swap(g.strides[axes.a], g.strides[axes.b]);
    finish_geometry(g);
  }
  Result y = s.view_result(g, 0);
  s.record(transpose_backward);
  s.set_attribute(axes);
  return s.finish(std::move(y));
}

namespace {
struct Order {
  u8 axis[kMaxDims];
  int n;
};
void permute_backward(Backward& g) {
  const Order& o = g.attribute<Order>();
  std::vector<i64> inverse(static_cast<size_t>(o.n));
  for (int i = 0; i < o.n; ++i) inverse[o.axis[i]] = i;
  g.put(0, permute(g.take_grad(), inverse));
}
}  // namespace

Tensor permute(const In& x, const Dims& order) {
  OpScope s(info::permute, x);
  const Geometry& g = s.geometry(0);
  if (order.is_all() || int(order.size()) != g.ndim)
    throw ShapeError(str("[permute] ", order.size(), " axes for a ", int(g.ndim),
                         "-dimensional tensor", s.at_line()));
  s.axes(order, g.ndim);  // refuses repeats
  Order o{{}, g.ndim};
  Geometry r = g;
  for (int i = 0; i < g.ndim; ++i) {
    o.axis[i] = u8(s.axis(order[i], g.ndim));
    r.shape[i] = g.shape[o.axis[i]];
    r.strides[i] = g.strides[o.axis[i]];
  }
  finish_geometry(r);
  Result y = s.view_result(r, 0);
  s.record(permute_backward);
  s.set_attribute(o);
  return s.finish(std::move(y));
}

namespace {
void expand_backward(Backward& g) { g.put_broadcast(0, g.take_grad()); }
}  // namespace

Tensor expand(const In& x, const Shape& shape) {
  OpScope s(info::expand, x);
  const Geometry& g = s.geometry(0);
  const int lead = shape.ndim() - g.ndim;
  const auto refuse = [&] {
    throw ShapeError(
        str("[expand] shape ", shape_of(g), " does not expand to ", shape, s.at_line()));
  };
  if (lead < 0) refuse();
  Shape wanted = shape, strides = shape;
  for (int i = 0; i < shape.ndim(); ++i) {
    const i64 have = i < lead ? 1 : g.shape[i - lead];
    if (shape[i] == -1 && i >= lead) wanted[i] = have;
    if (wanted[i] < 0 || (wanted[i] != have && have != 1)) refuse();
    strides[i] = i < lead || have != wanted[i] ? 0 : g.strides[i - lead];
  }
  check_numel(s, wanted);
  return finish_view(s, geometry_with(g, wanted, strides), 0, expand_backward);
}

Tensor squeeze(const In& x) {
  OpScope s(info::squeeze, x);
  const Geometry& g = s.geometry(0);
  Shape shape, strides;
  for (int i = 0; i < g.ndim; ++i)
    if (g.shape[i] != 1) shape.push_back(g.shape[i]), strides.push_back(g.strides[i]);
  return finish_view(s, geometry_with(g, shape, strides), 0, view_backward);
}

Tensor squeeze(const In& x, i64 axis) {
  OpScope s(info::squeeze, x);
  const Geometry& g = s.geometry(0);
  const int a = s.axis(axis, g.ndim);
  Shape shape = shape_of(g), strides = strides_of(g);
  if (g.ndim > 0 && g.shape[a] == 1) shape.erase(a), strides.erase(a);
  return finish_view(s, geometry_with(g, shape, strides), 0, view_backward);
}

Tensor unsqueeze(const In& x, i64 axis) {
  OpScope s(info::unsqueeze, x);
  const Geometry& g = s.geometry(0);
  const int a = s.axis(axis, g.ndim + 1);
  Shape shape = shape_of(g), strides = strides_of(g);
  shape.insert(a, 1);
  strides.insert(a, a < g.ndim ? g.strides[a] * g.shape[a] : 1);
  return finish_view(s, geometry_with(g, shape, strides), 0, view_backward);
}

namespace {
struct SliceOf {
  int axis;
  Slice range;
};
void slice_backward_fn(Backward& g) {
  const SliceOf a = g.attribute<SliceOf>();
  if (g.add_to_window(0, a.axis, a.range, g.grad())) return;
  const Shape shape = g.input_shape(0);
  g.put(0, slice_backward(g.take_grad(), shape, a.axis, a.range));
}
void select_backward_fn(Backward& g) {
  const SliceOf a = g.attribute<SliceOf>();
  const Shape shape = g.input_shape(0);
  g.put(0, slice_backward(unsqueeze(g.take_grad(), a.axis), shape, a.axis, a.range));
}
}  // namespace

Tensor select(const In& x, i64 axis, i64 index) {
  OpScope s(info::select, x);
  const Geometry& g = s.geometry(0);
  if (g.ndim == 0) throw IndexError(str("[select] a 0-d tensor cannot be indexed", s.at_line()));
  const int a = s.axis(axis, g.ndim);
  const i64 n = g.shape[a];
  if (index < -n || index >= n)
    throw IndexError(str("[select] index ", index, " is outside [", -n, ", ", n, ") of axis ", a,
                         " of shape ", shape_of(g), s.at_line()));
  const i64 i = index < 0 ? index + n : index;
  Shape shape = shape_of(g), strides = strides_of(g);
  shape.erase(a);
  strides.erase(a);
  Result y = s.view_result(geometry_with(g, shape, strides), i * g.strides[a]);
  s.record(select_backward_fn);
  s.set_attribute(SliceOf{a, Slice{i, i + 1, 1}});
  return s.finish(std::move(y));
}

Tensor slice(const In& x, i64 axis, Slice range) {
  OpScope s(info::slice, x);
  Geometry g = s.geometry(0);
  if (g.ndim == 0) throw IndexError(str("[slice] a 0-d tensor cannot be sliced", s.at_line()));
  const int a = s.axis(axis, g.ndim);
  const Slice r = resolve_slice(s, range, g.shape[a]);
  const i64 offset = r.begin * g.strides[a];
  g.shape[a] = slice_length(r);
  if (g.shape[a] > 1) g.strides[a] *= r.step;  // else it may be too large to multiply
  finish_geometry(g);
  Result y = s.view_result(g, g.numel == 0 ? 0 : offset);
  s.record(slice_backward_fn);
  s.set_attribute(SliceOf{a, r});
  return s.finish(std::move(y));
}

std::vector<Tensor> split(const In& x, i64 size, i64 axis) {
  if (!x.impl()) detail::use_of_undefined(x.frame());
  const Tensor t(detail::retained(x.impl()));
  const FrameScope frame(x.frame());
  if (size < 1) throw ShapeError(str("[split] the size must be at least 1, got ", size));
  std::vector<Tensor> parts;
  const i64 n = t.size(axis);
  parts.reserve(size_t(n / size + 1));
  for (i64 i = 0; i < n; i += size) parts.push_back(slice(t, axis, {i, std::min(i + size, n)}));
  if (n == 0) parts.push_back(t);
  x.take();
  return parts;
}

std::vector<Tensor> split(const In& x, const std::vector<i64>& sizes, i64 axis) {
  if (!x.impl()) detail::use_of_undefined(x.frame());
  const Tensor t(detail::retained(x.impl()));
  const FrameScope frame(x.frame());
  const i64 n = t.size(axis);
  i64 total = 0;
  for (const i64 size : sizes) {
    if (size < 0) throw ShapeError(str("[split] a size must not be negative, got ", size));
    total = checked_add(total, size, "the sizes of split");
  }
  if (total != n)
    throw ShapeError(str("[split] the sizes add up to ", total, ", the axis has ", n));
  std::vector<Tensor> parts;
  parts.reserve(sizes.size());
  i64 from = 0;
  for (const i64 size : sizes) {
    parts.push_back(slice(t, axis, {from, from + size}));
    from += size;
  }
  x.take();
  return parts;
}

Tensor detach(const In& x) {
  if (!x.impl()) detail::use_of_undefined(x.frame());
  TensorImpl* p = alias_of(x.impl());
  p->frame = intern_frame(mode.frame ? frame_of(mode.frame) : x.frame());
  p->flags |= kIsView;
  p->cell->view_frame.store(p->frame, std::memory_order_relaxed);
  p->cell->views.fetch_add(1, std::memory_order_relaxed);
  return in_place_of(x, Tensor(p));
}

// --- copies ---

namespace {

void copy_views(const View& to, const View& from, const OpScope& s) {
  run(CopyArgs{to, from}, s.launch());
}

void pass_backward(Backward& g) { g.put(0, g.take_grad()); }

Shape channels_last_strides(const Shape& n) { return {n[1] * n[2] * n[3], 1, n[1] * n[3], n[1]}; }

// A fresh tensor of x's shape in `format`.
Result empty_in_format(OpScope& s, const Geometry& g, DType t, MemoryFormat format) {
  Result y = s.result(g.shape, g.ndim, t);
  if (format == MemoryFormat::channels_last) {
    const Shape strides = channels_last_strides(shape_of(g));
    for (int i = 0; i < 4; ++i) y.impl()->geometry.strides[i] = strides[i];
    finish_geometry(y.impl()->geometry);
  }
  return y;
}

}  // namespace

Tensor contiguous(const In& x, MemoryFormat format) {
  if (!x.impl()) detail::use_of_undefined(x.frame());
  if (format == MemoryFormat::channels_last && x.impl()->geometry.ndim != 4)
    throw ShapeError(str("[contiguous] channels_last needs 4 dimensions, got ",
                         int(x.impl()->geometry.ndim), "\n  at ", describe(x.frame())));
  const Tensor self(detail::retained(x.impl()));
  if (self.is_contiguous(format)) return in_place_of(x, self);
  OpScope s(info::contiguous, x);
  Result y = empty_in_format(s, s.geometry(0), s.dtype(), format);
  s.record(pass_backward);
  copy_views(y.view(), s.view(0), s);
  return s.finish(std::move(y));
}

Tensor clone(const In& x) {
  OpScope s(info::clone, x);
  const bool nhwc = Tensor(detail::retained(x.impl())).is_contiguous(MemoryFormat::channels_last) &&
                    !s.geometry(0).dense;
  Result y = empty_in_format(s, s.geometry(0), s.dtype(),
                             nhwc ? MemoryFormat::channels_last : MemoryFormat::contiguous);
  s.record(pass_backward);
  copy_views(y.view(), s.view(0), s);
  return s.finish(std::move(y));
}

namespace {
void to_dtype_backward(Backward& g) {
  const Edge& e = g.node->edges[0];
  const DType t = DType(e.node->output_info(e.output).key & 0xff);
  Leaf* const leaf = e.node->is_leaf() ? static_cast<Leaf*>(e.node) : nullptr;
  if (!leaf || g.some) return g.put(0, to_dtype(g.take_grad(), t));
  leaf->from_f16 |= dtype_of(g.grad().impl()) == DType::f16;
  // A leaf's first gradient is converted into its place, not by way of a tensor of its own.
  const GradSlot to = leaf->written ? GradSlot{} : g.converted_slot(0);
  if (!to) return g.put(0, to_dtype(g.take_grad(), t));
  run(CopyArgs{to.view(), view_of(g.grad().impl())}, g.launch());
}
void to_device_backward(Backward& g) {
  const Edge& e = g.node->edges[0];
  g.put(0, to_device(g.take_grad(), device_of_key(e.node->output_info(e.output).key)));
}
}  // namespace

Tensor to_dtype(const In& x, DType t) {
  if (x.impl() && dtype_of(x.impl()) == t)
    return in_place_of(x, Tensor(detail::retained(x.impl())));
  OpScope s(info::to_dtype, x);
  Result y = s.result(s.geometry(0).shape, s.geometry(0).ndim, t);
  if (is_floating(t)) s.record(to_dtype_backward);
  copy_views(y.view(), s.view(0), s);
  return s.finish(std::move(y));
}

Tensor detail::to_dtype_stored(const In& x, const TensorImpl* stored) {
  OpScope s(info::to_dtype, x);
  Result y(alias_of(stored));
  s.record(to_dtype_backward);
  return s.finish(std::move(y));
}

Tensor to_device(const In& x, Device d) {
  if (!x.impl()) detail::use_of_undefined(x.frame());
  const Device from = device_of(x.impl());
  if (from == d) return in_place_of(x, Tensor(detail::retained(x.impl())));
  detail::refuse_slices("to_device", x.impl(), x.frame());
  if (from.is_meta && !d.is_meta)
    throw PlacementError(str("[to_device] a meta tensor has no values to move to ", to_string(d),
                             "\n  at ", describe(x.frame()),
                             "\n  Try loading or initialising it there"));
  std::optional<SyncGuard> counted;
  if (d == Device::cpu()) {
    detail::before_wait("to_device", from, x.frame());
    counted.emplace(OnSync::allow);
  }
  if (detail::recording_graph()) [[unlikely]]
    detail::not_in_a_graph("to_device", "it copies between the device and host memory", x.frame());
  const FrameScope frame(x.frame());
  const Tensor dense = contiguous(Tensor(detail::retained(x.impl())));
  const In in(dense);
  OpScope s(info::to_device, in);
  const Geometry& g = s.geometry(0);
  Result y(new_contiguous(g.shape, g.ndim, g.dtype, d));
  s.record(to_device_backward);
  if (!d.is_meta)
    copy_bytes(y.impl()->data, d, dense.impl()->data, from, g.numel * item_size(g.dtype));
  return in_place_of(x, s.finish(std::move(y)));
}

namespace {
void slice_backward_backward(Backward& g) {
  const SliceOf a = g.attribute<SliceOf>();
  g.put(0, slice(g.take_grad(), a.axis, a.range));
}
}  // namespace

Tensor slice_backward(const In& x, const Shape& shape, i64 axis, Slice range) {
  OpScope s(info::slice_backward, x);
  if (shape.empty()) s.fail<IndexError>("a 0-d tensor cannot be sliced");
  const int a = s.axis(axis, shape.ndim());
  check_shape(s, shape);
  const Slice r = resolve_slice(s, range, shape[a]);
  Shape part = shape;
  part[a] = slice_length(r);
  if (shape_of(s.geometry(0)) != part)
    s.fail<ShapeError>(str("the slice of a tensor of shape ", shape, " has shape ", part));
  Result y = s.result(shape, s.dtype());
  s.record(slice_backward_backward);
  s.set_attribute(SliceOf{a, r});
  run(FillArgs{y.view(), 0.0, 0}, s.launch());
  Window window(y.view());
  window.narrow(a, r.begin, part[a], r.step);
  if (window.geometry.numel > 0) copy_views(window.view(), s.view(0), s);
  return s.finish(std::move(y));
}

namespace {
struct CatOf {
  int axis;
  std::vector<i64> sizes;
};
void cat_backward(Backward& g) {
  const CatOf& a = g.attribute<CatOf>();
  const Tensor gy = g.take_grad();
  i64 begin = 0;
  for (u32 i = 0; i < a.sizes.size(); ++i) {
    if (g.wants(i)) g.put(i, slice(gy, a.axis, {begin, begin + a.sizes[i]}));
    begin += a.sizes[i];
  }
}

// Operand objects for a list of tensors.
struct Inputs {
  std::vector<Tensor> converted;
  std::deque<In> in;
  std::vector<const In*> pointers;
  Inputs(std::span<const Tensor> parts, Frame at) {
    for (const Tensor& t : parts) in.emplace_back(t, at.file, at.line);
    for (const In& i : in) pointers.push_back(&i);
  }
};
}  // namespace

Tensor cat(std::span<const Tensor> parts, i64 axis, Frame at) {
  if (parts.empty()) throw UsageError(str("[cat] no tensors given\n  at ", describe(at)));
  const Inputs inputs(parts, at);
  OpScope s(info::cat, inputs.pointers.data(), int(parts.size()), Types::promote);
  const Geometry& first = s.geometry(0);
  if (first.ndim == 0) throw ShapeError(str("[cat] 0-d tensors cannot be joined", s.at_line()));
  CatOf a{s.axis(axis, first.ndim), {}};
  Shape shape = shape_of(first);
  shape[a.axis] = 0;
  for (int i = 0; i < int(parts.size()); ++i) {
    const Geometry& g = s.geometry(i);
    bool fits = g.ndim == first.ndim;
    for (int d = 0; fits && d < g.ndim; ++d) fits = d == a.axis || g.shape[d] == first.shape[d];
    if (!fits)
      throw ShapeError(str("[cat] shapes may differ only along axis ", a.axis, "\n  tensor 0 ",
                           shape_of(first), "\n  tensor ", i, " ", shape_of(g), s.at_line()));
    shape[a.axis] = checked_add(shape[a.axis], g.shape[a.axis]);
    a.sizes.push_back(g.shape[a.axis]);
  }
  Result y = s.result(shape, s.dtype());
  s.record(cat_backward);
  Geometry window = y.impl()->geometry;
  i64 offset = 0;
  for (int i = 0; i < int(parts.size()); ++i) {
    window.shape[a.axis] = a.sizes[size_t(i)];
    finish_geometry(window);
    char* data = y.view().as<char>();
    if (window.numel)
      copy_views({data ? data + offset * item_size(s.dtype()) : nullptr, &window}, s.view(i), s);
    offset += a.sizes[size_t(i)] * window.strides[a.axis];
  }
  s.set_attribute(std::move(a));
  return s.finish(std::move(y));
}

Tensor stack(std::span<const Tensor> parts, i64 axis, Frame at) {
  if (parts.empty()) throw UsageError(str("[stack] no tensors given\n  at ", describe(at)));
  const FrameScope frame(at);
  std::vector<Tensor> rows;
  for (const Tensor& t : parts) {
    if (t.shape() != parts[0].shape())
      throw ShapeError(str("[stack] shapes differ: ", parts[0].shape(), " and ", t.shape(),
                           "\n  at ", describe(at)));
    rows.push_back(unsqueeze(t, axis));
  }
  return cat(rows, normalize_axis("stack", axis, parts[0].ndim() + 1), at);
}

namespace detail {
OpSavings shape_savings() {
  static constexpr OpSaving kSavings[] = {
      {.op = &info::to_dtype, .again = [](Node& n, const Tensor& x, const Tensor*) {
         return wt::to_dtype(x, DType(n.output.key & 0xff));
       }}};
  return kSavings;
}
OpInfos shape_ops() {
  static constexpr const OpInfo* kOps[] = {
      &info::view,      &info::transpose, &info::permute,  &info::expand,         &info::squeeze,
      &info::unsqueeze, &info::select,    &info::slice,    &info::slice_backward, &info::contiguous,
      &info::clone,     &info::cat,       &info::reshape,  &info::flatten,        &info::split,
      &info::stack,     &info::to_dtype,  &info::to_device};
  return kOps;
}
}  // namespace detail

}  // namespace wt
