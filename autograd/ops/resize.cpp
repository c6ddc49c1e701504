// Resizing: one axis at a time, linear in x; forward and backward are each other's transpose.
#include "warptape/autograd/ops/resize.h"

#include <cmath>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/internal/resize_filter.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/kernels/resize.h"

namespace wt {
namespace info {
constexpr OpInfo resize_axis{.name = "resize_axis", .derivative = Derivative::linear};
constexpr OpInfo resize_axis_backward{.name = "resize_axis_backward",
                                      .derivative = Derivative::linear};
constexpr OpInfo upsample{.name = "upsample", .derivative = Derivative::linear, .composite = true};
}  // namespace info

namespace {

struct Resized {
  int axis;
  ResizeMap map;
  ResizeOptions options() const { return {map.mode, map.align_corners, map.scale}; }
};

// The axis and both sizes; `from_old`: operand 0 is the tensor to be resized, not the gradient.
Resized resized(const OpScope& s, i64 axis, i64 size, const ResizeOptions& o, bool from_old) {
  detail::require_floating(s);
  const Geometry& g = s.geometry(0);
  if (g.ndim == 0) s.fail<ShapeError>("needs at least one dimension");
  const int a = s.axis(axis, g.ndim);
  if (size < 1) s.fail<ShapeError>(str("the size must be at least 1, got ", size));
  if (g.shape[a] < 1) s.fail<ShapeError>(str("axis ", a, " has no elements"));
  if (!std::isfinite(o.scale) || o.scale < 0)
    s.fail<ShapeError>(str("the scale must be above 0, got ", o.scale));
  const i64 old_size = from_old ? g.shape[a] : size, new_size = from_old ? size : g.shape[a];
  return {a, {old_size, new_size, o.mode, o.align_corners, o.scale}};
}

Result result_of(const OpScope& s, int axis, i64 size) {
  Shape shape = shape_of(s.geometry(0));
  shape[axis] = size;
  check_numel(s, shape);
  return result_ordered_like(s, 0, shape);
}

void resize_backward(Backward& g) {
  const auto r = g.attribute<Resized>();
  g.put(0, resize_axis_backward(g.take_grad(), r.axis, r.map.in, r.options()));
}
void resize_backward_backward(Backward& g) {
  const auto r = g.attribute<Resized>();
  g.put(0, resize_axis(g.take_grad(), r.axis, r.map.out, r.options()));
}

}  // namespace

Tensor resize_axis(const In& x, i64 axis, i64 size, const ResizeOptions& options) {
  OpScope s(info::resize_axis, x);
  const Resized r = resized(s, axis, size, options, true);
  Result y = result_of(s, r.axis, size);
  s.record(resize_backward);
  s.set_attribute(r);
  run(ResizeArgs{y.view(), s.view(0), r.axis, r.map}, s.launch());
  return s.finish(std::move(y));
}

Tensor resize_axis_backward(const In& gout, i64 axis, i64 size, const ResizeOptions& options) {
  OpScope s(info::resize_axis_backward, gout);
  const Resized r = resized(s, axis, size, options, false);
  Result y = result_of(s, r.axis, size);
  s.record(resize_backward_backward);
  s.set_attribute(r);
  run(ResizeBackwardArgs{y.view(), s.view(0), r.axis, r.map}, s.launch());
  return s.finish(std::move(y));
}

// --- images ---
namespace {

bool is_nearest(UpsampleMode m) {
  return m == UpsampleMode::nearest || m == UpsampleMode::nearest_exact;
}
// Made of other operators: more taps than the kernel of resize_axis has.
bool is_filter(const UpsampleOptions& o) { return o.antialias || o.mode == UpsampleMode::bicubic; }

void check_options(const OpScope& s, const UpsampleOptions& o) {
  const int ndim = s.geometry(0).ndim, axes = ndim - 2;
  detail::require_floating(s);
  if (ndim < 3 || ndim > 5)
    s.fail<ShapeError>(
        str("expected [N, C, L], [N, C, H, W] or [N, C, D, H, W], got ", ndim, " dimensions"));
  if (o.size.empty() == o.scale.empty())
    s.fail<UsageError>("one of size and scale must be given, and not both");
  for (const size_t n : {o.size.size(), o.scale.size()})
    if (n > 1 && n != size_t(axes))
      s.fail<ShapeError>(str(n, " sizes or scales for ", axes, " axes"));
  if (is_nearest(o.mode) && o.align_corners)
    s.fail<UsageError>("align_corners is for the linear modes and bicubic");
  const bool planar = o.mode == UpsampleMode::bilinear || o.mode == UpsampleMode::bicubic;
  if (o.antialias && !planar) s.fail<UsageError>("antialias is for bilinear and bicubic");
  const int wanted = planar ? 4 : o.mode == UpsampleMode::trilinear ? 5 : ndim;
  if (wanted != ndim)
    s.fail<ShapeError>(str(o.mode == UpsampleMode::bicubic ? "bicubic"
                           : planar                        ? "bilinear"
                                                           : "trilinear",
                           " takes ", wanted, " dimensions, got ", ndim));
  for (int d = 2; d < ndim; ++d)
    if (s.geometry(0).shape[d] < 1) s.fail<ShapeError>(str("axis ", d, " has no elements"));
}

double scale_of(const UpsampleOptions& o, int k) {
  return o.scale.empty() ? 0 : o.scale[o.scale.size() == 1 ? 0 : size_t(k)];
}

// The sizes after resizing, of all axes.
Shape upsampled(const OpScope& s, const UpsampleOptions& o) {
  Shape shape = shape_of(s.geometry(0));
  for (int d = 2; d < shape.ndim(); ++d) {
    const double scale = scale_of(o, d - 2), product = double(shape[d]) * scale;
    if (o.scale.empty())
      shape[d] = o.size[o.size.ndim() == 1 ? 0 : d - 2];
    else if (!(scale > 0) || !(product < 0x1p62))
      s.fail<ShapeError>(str("a scale must be above 0 and the size fit 64 bits, got ", scale));
    else
      shape[d] = i64(product);
    if (shape[d] < 1)
      s.fail<ShapeError>(str("axis ", d, " would have ", shape[d], " elements, at least 1"));
  }
  check_numel(s, shape);
  return shape;
}

}  // namespace

static Tensor upsampled_axis(Tensor t, int axis, i64 size, const UpsampleOptions& o) {
  const double scale = scale_of(o, axis - 2);
  if (is_filter(o))
    return detail::filtered_axis(
        t, axis, size, {o.mode == UpsampleMode::bicubic, o.antialias, o.align_corners, scale});
  const ResizeMode mode = o.mode == UpsampleMode::nearest         ? ResizeMode::nearest
                          : o.mode == UpsampleMode::nearest_exact ? ResizeMode::nearest_exact
                                                                  : ResizeMode::linear;
  return resize_axis(std::move(t), axis, size, {mode, o.align_corners, scale});
}

Tensor upsample(const In& x, const UpsampleOptions& options) {
  CompositeScope s(info::upsample, x);
  check_options(s, options);
  const Shape shape = upsampled(s, options);
  Tensor t = s.operand(0);
  int axes = 0;
  for (int d = 2; d < shape.ndim(); ++d) axes += shape[d] != t.size(d);
  if (axes == 0) return s.finish(clone(t));
  // Rounding once, not once an axis or a tap.
  if ((axes > 1 || is_filter(options)) && !is_nearest(options.mode) && is_half(s.dtype()))
    t = to_dtype(std::move(t), f32);
  // The last axis first: the later passes, over more elements, have longer runs.
  for (int d = shape.ndim(); d-- > 2;)
    if (shape[d] != t.size(d)) t = upsampled_axis(std::move(t), d, shape[d], options);
  return s.finish(to_dtype(std::move(t), s.dtype()));
}

namespace detail {
OpInfos resize_ops() {
  static constexpr const OpInfo* kOps[] = {&info::resize_axis, &info::resize_axis_backward,
                                           &info::upsample};
  return kOps;
}
}  // namespace detail

}  // namespace wt
