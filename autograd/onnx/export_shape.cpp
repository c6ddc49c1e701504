// Views, copies and joins. A view's numbers are read off the geometries of what it sees and what it
// gives.
#include <algorithm>
#include <limits>

#include "warptape/autograd/onnx/export.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/resize.h"

namespace wt::onnx {
namespace {

constexpr i64 kEnd = std::numeric_limits<i64>::max();

// Elements from the start of a to the start of b.
i64 offset_of(const TracedValue& a, const TracedValue& b) {
  const char *from = static_cast<const char*>(a.tensor.impl()->data),
             *to = static_cast<const char*>(b.tensor.impl()->data);
  return (to - from) / item_size(a.dtype());
}

void identity(OpExport& e) { e.put(e.in(0)); }
void to_dtype(OpExport& e) { e.put(e.in(0, e.out().dtype())); }

void reshape(OpExport& e) { e.put(e.w.node("Reshape", {e.in(0), e.shape_like_out(true)})); }

void permute(OpExport& e) {
  const Geometry &x = e.of(0).geometry(), &y = e.out().geometry();
  const Geometry &x2 = e.twin_of(0).geometry(), &y2 = e.twin_out().geometry();
  // Axes of one size and stride may change places.
  std::vector<i64> order;
  u32 used = 0;
  for (int d = 0; d < y.ndim; ++d)
    for (int a = 0; a < x.ndim; ++a)
      if (!(used >> a & 1) && x.shape[a] == y.shape[d] && x.strides[a] == y.strides[d] &&
          x2.shape[a] == y2.shape[d] && x2.strides[a] == y2.strides[d]) {
        order.push_back(a);
        used |= 1u << a;
        break;
      }
  if (int(order.size()) != y.ndim) e.refuse("its order of axes cannot be told");
  e.put(e.w.node("Transpose", {e.in(0)}, {attribute("perm", order)}));
}

void expand(OpExport& e) {
  const Geometry &x = e.of(0).geometry(), &y = e.out().geometry();
  // A size of 1 leaves the operand's.
  std::vector<i64> sizes;
  for (int d = 0; d < y.ndim; ++d) {
    const int own = d - (y.ndim - x.ndim);
    const bool kept = own >= 0 && x.shape[own] == y.shape[d] &&
                      e.twin_of(0).geometry().shape[own] == e.twin_out().geometry().shape[d];
    if (!kept && e.dynamic(0, d)) {
      e.put(e.w.node("Expand", {e.in(0), e.shape_like_out(false)}));
      return;
    }
    sizes.push_back(kept ? 1 : y.shape[d]);
  }
  e.put(e.w.node("Expand", {e.in(0), e.w.integers(sizes)}));
}

void squeeze(OpExport& e) {
  const Geometry &x = e.of(0).geometry(), &y = e.out().geometry();
  const Geometry &x2 = e.twin_of(0).geometry(), &y2 = e.twin_out().geometry();
  std::vector<i64> axes;
  int next = 0;
  for (int a = 0; a < x.ndim; ++a) {
    // What is the result's next axis is kept: among neighbours of size 1 each is as good.
    if (next < y.ndim && x.shape[a] == y.shape[next] && x2.shape[a] == y2.shape[next])
      ++next;
    else
      axes.push_back(a);
  }
  if (axes.empty()) return identity(e);
  e.put(e.w.node("Squeeze", {e.in(0), e.w.integers(axes)}));
}

void unsqueeze(OpExport& e) {
  const Geometry &x = e.of(0).geometry(), &y = e.out().geometry();
  const Geometry &x2 = e.twin_of(0).geometry(), &y2 = e.twin_out().geometry();
  // Among neighbours of size 1 each place is as good.
  int at = 0;
  while (at < x.ndim && x.shape[at] == y.shape[at] && x2.shape[at] == y2.shape[at]) ++at;
  e.put(e.w.node("Unsqueeze", {e.in(0), e.w.integers({at})}));
}

// Whether y is x at one place of axis a, `offset` elements behind x's start.
bool without_axis(const Geometry& x, const Geometry& y, int a, i64 offset) {
  for (int d = 0; d < y.ndim; ++d) {
    const int from = d < a ? d : d + 1;
    if (x.shape[from] != y.shape[d] || x.strides[from] != y.strides[d]) return false;
  }
  const i64 step = x.strides[a];
  return step == 0 ? offset == 0 : offset % step == 0 && offset / step < x.shape[a];
}

// The axis that select() took: the others are y's, in both traces, as sizes of 1 are alike.
void select(OpExport& e) {
  const Geometry &x = e.of(0).geometry(), &y = e.out().geometry();
  const Geometry &x2 = e.twin_of(0).geometry(), &y2 = e.twin_out().geometry();
  const i64 offset = offset_of(e.of(0), e.out());
  const i64 twin = offset_of(e.twin_of(0), e.twin_out());
  for (int a = 0; a < x.ndim; ++a) {
    if (!without_axis(x, y, a, offset) || !without_axis(x2, y2, a, twin)) continue;
    const i64 index = x.strides[a] ? offset / x.strides[a] : 0;
    const i64 step = x2.strides[a], size = x.shape[a], twin_size = x2.shape[a];
    i64 wanted = index;
    if (step != 0 && twin != index * step) {  // counted from the end
      if (twin / step - twin_size != index - size) e.refuse("its index depends on a dynamic size");
      wanted = index - size;
    }
    return e.put(
        e.w.node("Gather", {e.in(0), e.w.number(DType::i64, wanted)}, {attribute("axis", i64{a})}));
  }
  e.refuse("its axis cannot be told");
}

void slice(OpExport& e) {
  const Geometry &x = e.of(0).geometry(), &y = e.out().geometry();
  const Geometry &x2 = e.twin_of(0).geometry(), &y2 = e.twin_out().geometry();
  if (y.numel == 0) e.refuse("a result without elements");
  const i64 offset = offset_of(e.of(0), e.out()), offset2 = offset_of(e.twin_of(0), e.twin_out());
  int axis = -1;
  for (int d = 0; d < x.ndim && axis < 0; ++d)
    if (x.shape[d] != y.shape[d] || x2.shape[d] != y2.shape[d]) axis = d;
  if (axis < 0) {
    if (offset != 0) e.refuse("its axis cannot be told");
    return identity(e);
  }
  const i64 stride = x.strides[axis], stride2 = x2.strides[axis];
  if (stride == 0 || stride2 == 0) e.refuse("of an expanded axis");
  const i64 begin = offset / stride, begin2 = offset2 / stride2;
  const i64 by = y.shape[axis] > 1    ? y.strides[axis] / stride
                 : y2.shape[axis] > 1 ? y2.strides[axis] / stride2
                                      : 1;
  const i64 last = begin + (y.shape[axis] - 1) * by, last2 = begin2 + (y2.shape[axis] - 1) * by;
  const i64 n = x.shape[axis], n2 = x2.shape[axis];
  // What moves with the axis' size is counted from its end.
  if (begin != begin2 && begin - n != begin2 - n2) e.refuse("its bounds depend on a dynamic size");
  i64 end = last + 1;
  if (last != last2) {
    // The slice ended up to a step behind its last element: where that may have been the axis' end
    // it was.
    const i64 behind = std::min({last + by - n, last2 + by - n2, i64{0}});
    if (behind <= last - n || behind <= last2 - n2) e.refuse("its bounds depend on a dynamic size");
    end = behind == 0 ? kEnd : behind;
  }
  e.put(write_slice(e.w, e.in(0), axis, begin == begin2 ? begin : begin - n, end, by));
}

void cat(OpExport& e) {
  const Geometry& y = e.out().geometry();
  Texts parts;
  int axis = -1;
  for (int i = 0; i < e.operands(); ++i) {
    const Geometry& x = e.of(i).geometry();
    e.same((x.numel == 0) == (e.twin_of(i).geometry().numel == 0), "whether a part is empty");
    if (x.numel == 0) continue;
    parts.push_back(e.in(i, e.out().dtype()));
    for (int d = 0; d < y.ndim; ++d)
      if (x.shape[d] != y.shape[d]) axis = d;
  }
  if (parts.empty()) e.refuse("a result without elements");
  if (parts.size() == 1) return e.put(e.w.node("Identity", {parts[0]}));
  e.put(e.w.node("Concat", parts, {attribute("axis", i64{axis})}));
}

// Where `part` begins in `whole`, by axis; 0 of an expanded axis, whose elements are one.
Shape begin_of(const TracedKernel::Seen& part, const TracedValue& whole) {
  const Geometry& g = whole.geometry();
  i64 offset =
      (static_cast<const char*>(part.data) - static_cast<const char*>(whole.tensor.impl()->data)) /
      item_size(g.dtype);
  Shape at = whole.shape();
  std::vector<int> order;
  for (int d = 0; d < g.ndim; ++d) order.push_back(d), at[d] = 0;
  std::sort(order.begin(), order.end(), [&](int a, int b) { return g.strides[a] > g.strides[b]; });
  for (const int d : order) {
    if (g.shape[d] == 1 || g.strides[d] == 0) continue;
    at[d] = offset / g.strides[d];
    offset %= g.strides[d];
  }
  return at;
}

// Before all axes, then behind them; below 0 where elements are cut off. The copy tells.
std::vector<i64> pads_of(const TracedKernel& copy, const TracedValue& operand,
                         const TracedValue& result) {
  const Geometry &x = operand.geometry(), &y = result.geometry();
  const Shape to = begin_of(copy.views[0], result), from = begin_of(copy.views[1], operand);
  std::vector<i64> before, after;
  for (int d = 0; d < x.ndim; ++d) {
    const i64 kept = copy.views[0].geometry.shape[d];
    before.push_back(to[d] > 0 ? to[d] : -from[d]);
    const i64 behind = y.shape[d] - to[d] - kept, cropped = x.shape[d] - from[d] - kept;
    after.push_back(behind > 0 ? behind : -cropped);
  }
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

void pad(OpExport& e) {
  const TracedKernel *copy = e.kernel<CopyArgs>(), *copy2 = e.twin_kernel<CopyArgs>();
  const TracedKernel *fill = e.kernel<FillArgs>(), *fill2 = e.twin_kernel<FillArgs>();
  if (!copy || !copy2 || e.of(0).geometry().numel == 0) e.refuse("nothing of its operand is left");
  const std::vector<i64> pads = pads_of(*copy, e.of(0), e.out());
  e.same(pads == pads_of(*copy2, e.twin_of(0), e.twin_out()) && bool(fill) == bool(fill2), "a pad");
  Texts inputs{e.in(0), e.w.integers(pads)};
  if (fill) {
    const DType t = e.out().dtype();
    const FillArgs &f = e.args<FillArgs>(), &f2 = e.twin_args<FillArgs>();
    e.same(same_number(f.f, f2.f) && f.i == f2.i, "a number");
    inputs.push_back(e.w.number(t, is_floating(t) ? Scalar(f.f) : Scalar(f.i)));
  }
  e.put(e.w.node("Pad", inputs, {attribute("mode", "constant")}));
}

void flip(OpExport& e) {
  const TracedKernel *copy = e.kernel<CopyArgs>(), *copy2 = e.twin_kernel<CopyArgs>();
  if (!copy || !copy2) e.refuse("a result without elements");
  std::vector<i64> axes, first, last, steps;
  for (int d = 0; d < e.of(0).geometry().ndim; ++d)
    if (copy->views[1].geometry.strides[d] < 0 || copy2->views[1].geometry.strides[d] < 0)
      axes.push_back(d), first.push_back(-1), last.push_back(-kEnd), steps.push_back(-1);
  if (axes.empty()) return e.put(e.w.node("Identity", {e.in(0)}));
  e.put(e.w.node("Slice", {e.in(0), e.w.integers(first), e.w.integers(last), e.w.integers(axes),
                           e.w.integers(steps)}));
}

// Of an operator in place: what is written, as far as the tensor.
void copy_(OpExport& e) {
  const DType t = e.out().dtype();
  if (e.of(1).shape() == e.out().shape() && e.twin_of(1).shape() == e.twin_out().shape())
    return e.put(e.in(1, t));
  for (int d = 0; d < e.out().geometry().ndim; ++d)
    if (e.dynamic(0, d))
      return e.put(e.w.node("Expand", {e.in(1, t), e.w.node("Shape", {e.in(0)})}));
  std::vector<i64> sizes;
  for (const i64 n : e.out().shape()) sizes.push_back(n);
  e.put(e.w.node("Expand", {e.in(1, t), e.w.integers(sizes)}));
}

void resize_axis(OpExport& e) {
  const ResizeArgs& a = e.args<ResizeArgs>();
  const int ndim = e.of(0).geometry().ndim;
  const bool linear = a.map.mode == ResizeMode::linear;
  Attributes how{attribute("mode", linear ? "linear" : "nearest")};
  if (linear) {
    how.push_back(attribute("coordinate_transformation_mode",
                            a.map.align_corners ? "align_corners" : "half_pixel"));
  } else {
    const bool exact = a.map.mode == ResizeMode::nearest_exact;
    how.push_back(attribute("coordinate_transformation_mode", exact ? "half_pixel" : "asymmetric"));
    how.push_back(attribute("nearest_mode", exact ? "round_prefer_ceil" : "floor"));
  }
  e.same(a.map.scale == e.twin_args<ResizeArgs>().map.scale, "its scale");
  e.same(a.map.scale > 0 || a.map.out == e.twin_args<ResizeArgs>().map.out, "its size");
  if (a.map.scale > 0) {
    std::vector<float> scales(size_t(ndim), 1.0F);
    scales[size_t(a.axis)] = float(a.map.scale);
    return e.put(e.w.node("Resize", {e.in(0), "", e.w.constant(tensor(scales))}, how));
  }
  bool dynamic = false;
  std::vector<i64> sizes;
  for (int d = 0; d < ndim; ++d) {
    dynamic |= e.dynamic(0, d);
    sizes.push_back(e.out().geometry().shape[d]);
  }
  std::string wanted = e.w.integers(sizes);
  if (dynamic) {
    const std::string shape = e.w.node("Shape", {e.in(0)});
    Texts parts;
    if (a.axis > 0) parts.push_back(write_slice(e.w, shape, 0, 0, a.axis));
    parts.push_back(e.w.integers({a.map.out}));
    if (a.axis + 1 < ndim) parts.push_back(write_slice(e.w, shape, 0, a.axis + 1, ndim));
    wanted = e.w.node("Concat", parts, {attribute("axis", i64{0})});
  }
  e.put(e.w.node("Resize", {e.in(0), "", "", wanted}, how));
}

}  // namespace

void add_shape_exporters(Exporters& to) {
  for (const char* name : {"contiguous", "clone", "detach"}) to[name] = identity;
  to["to_dtype"] = to_dtype, to["view"] = reshape, to["expand"] = expand;
  to["transpose"] = to["permute"] = permute, to["squeeze"] = squeeze;
  to["unsqueeze"] = unsqueeze, to["select"] = select, to["slice"] = slice, to["cat"] = cat;
  to["pad"] = pad, to["flip"] = flip, to["copy"] = copy_, to["resize_axis"] = resize_axis;
}

}  // namespace wt::onnx
