#include "warptape/autograd/ops/internal/window.h"

#include "warptape/autograd/ops/shape.h"

namespace wt::detail {

namespace {
const char* const kAxes[4] = {"", "L", "H, W", "D, H, W"};
}

void WindowCheck::input(const char* name) const {
  const Geometry& g = s.geometry(0);
  if (!is_floating(g.dtype) || !computes(g.dtype))
    s.fail<DtypeError>(str("expected a floating dtype that computes, got ", dtype_name(g.dtype)),
                       ".to(f32)");
  if (g.ndim != axes + 1 && g.ndim != axes + 2)
    s.fail<ShapeError>(str(name, " has ", int(g.ndim), " dimensions, ", axes + 2,
                           " are needed: [N, C, ", kAxes[axes], "], or ", axes + 1, ": [C, ",
                           kAxes[axes], "]"));
}

void WindowCheck::numbers(const char* name, const PerAxis& from, i64 least, i32* to) const {
  if (from.size() != 1 && from.size() != axes)
    s.fail<UsageError>(str(name, " has ", from.size(), " numbers, ",
                           axes == 1 ? std::string("1 is") : str("1 or ", axes, " are"),
                           " needed"));
  for (int d = 0; d < axes; ++d) {
    if (from[d] < least || from[d] > INT32_MAX)
      s.fail<UsageError>(str(name, " must be at least ", least,
                             from[d] > INT32_MAX ? " and less than 2^31" : "", ", got ", from[d]));
    to[d] = i32(from[d]);
  }
}

i64 WindowCheck::reach(i64 kernel, i64 dilation) const {
  return checked_add(checked_mul(kernel - 1, dilation, "the kernel's size"), 1,
                     "the kernel's size");
}

i64 WindowCheck::positions(int axis, i64 size, i64 reach, i64 stride, i64 padding,
                           bool ceil_mode) const {
  const i64 padded = checked_add(size, 2 * padding, "x's padded size");
  if (padded < reach)
    s.fail<ShapeError>(str("the kernel spans ", reach, " elements of spatial axis ", axis,
                           ", x has ", size, padding ? str(", ", padded, " with padding") : ""));
  const i64 left = padded - reach;
  i64 count = left / stride + 1;
  if (ceil_mode && left % stride != 0 && count * stride < size + padding) ++count;
  return count;
}

ConvTensor spatial_tensor(const TensorImpl* p, int axes) {
  const Geometry& g = p->geometry;
  ConvTensor t{p->data, 0, 0, {0, 0, 0}};
  const int lead = g.ndim - axes;
  t.channel = g.strides[lead - 1];
  if (lead == 2) t.batch = g.strides[0];
  for (int d = 0; d < axes; ++d) t.at[3 - axes + d] = g.strides[lead + d];
  return t;
}

Shape with_channels(const Shape& like, int axes, i64 channels, const Shape& sizes) {
  Shape s;
  if (like.ndim() == axes + 2) s.push_back(like[0]);
  s.push_back(channels);
  for (i64 n : sizes) s.push_back(n);
  return s;
}

bool channels_last(const Geometry& g, int axes) {
  const int channel = g.ndim - axes - 1;
  if (g.shape[channel] == 1 || g.dense) return false;
  i64 expected = 1;
  const auto follows = [&](int axis) {
    if (g.shape[axis] != 1 && g.strides[axis] != expected) return false;
    expected *= g.shape[axis];
    return true;
  };
  if (!follows(channel)) return false;
  for (int d = g.ndim; d-- > channel + 1;)
    if (!follows(d)) return false;
  return true;
}

Result result_in_order_of(const OpScope& s, int i, const Shape& shape, int axes, DType t) {
  Result y = s.result(shape, t);
  if (!channels_last(s.geometry(i), axes)) return y;
  Geometry& g = y.impl()->geometry;
  const int channel = g.ndim - axes - 1;
  i64 step = 1;
  const auto lay = [&](int axis) {
    g.strides[axis] = step;
    step *= g.shape[axis];
  };
  lay(channel);
  for (int d = g.ndim; d-- > channel + 1;) lay(d);
  if (channel == 1) lay(0);
  finish_geometry(g);
  return y;
}
Result result_in_order_of(const OpScope& s, int i, const Shape& shape, int axes) {
  return result_in_order_of(s, i, shape, axes, s.dtype(i));
}

Tensor gapless(const Tensor& t, const Tensor& like, int axes) {
  if (t.device().is_meta || is_permuted_dense(t.impl()->geometry)) return t;
  const bool last =
      axes == 2 && t.ndim() == 4 && like.defined() && channels_last(like.impl()->geometry, axes);
  return contiguous(t, last ? MemoryFormat::channels_last : MemoryFormat::contiguous);
}

}  // namespace wt::detail
