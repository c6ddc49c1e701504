// Views. A view's node leads to the base; its backward puts the gradient back into the base's
// shape. The copies that autograd/ops/shape.h declares are in shape_copies.cpp.
#include "warptape/autograd/ops/shape.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
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
constexpr OpInfo reshape{.name = "reshape", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo flatten{.name = "flatten", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo split{
    .name = "split", .derivative = Derivative::linear, .view = true, .composite = true};
}  // namespace info

namespace {

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
  if (window.geometry.numel > 0) run(CopyArgs{window.view(), s.view(0)}, s.launch());
  return s.finish(std::move(y));
}

namespace detail {
OpInfos shape_ops() {
  static constexpr const OpInfo* kOps[] = {&info::view,    &info::transpose, &info::permute,
                                           &info::expand,  &info::squeeze,   &info::unsqueeze,
                                           &info::select,  &info::slice,     &info::slice_backward,
                                           &info::reshape, &info::flatten,   &info::split};
  return kOps;
}
}  // namespace detail

}  // namespace wt
