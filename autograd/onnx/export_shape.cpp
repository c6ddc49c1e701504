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
  // Axes of one size and stride may change places.
  std::vector<i64> order;
  u32 used = 0;
  for (int d = 0; d < y.ndim; ++d)
    for (int a = 0; a < x.ndim; ++a)
      if (!(used >> a & 1) && x.shape[a] == y.shape[d] && x.strides[a] == y.strides[d] &&
          e.twin_of(0).geometry().shape[a] == e.twin_out().geometry().shape[d]) {
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
  std::vector<i64> axes;
  int next = 0;
  for (int a = 0; a < x.ndim; ++a) {
    // With as many axes left as are wanted, the rest is kept.
    const bool one = x.shape[a] == 1 && e.twin_of(0).geometry().shape[a] == 1;
    const bool dropped = x.ndim - a > y.ndim - next && one;
    if (dropped)
      axes.push_back(a);
    else
      ++next;
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

// The axis that select() took: the others are y's.
void select(OpExport& e) {
  const Geometry &x = e.of(0).geometry(), &y = e.out().geometry();
  const i64 offset = offset_of(e.of(0), e.out());
  for (int a = 0; a < x.ndim; ++a) {
    bool fits = x.strides[a] == 0 ? offset == 0 : offset % x.strides[a] == 0;
    for (int d = 0; d < y.ndim; ++d) {
      const int from = d < a ? d : d + 1;
      fits &= x.shape[from] == y.shape[d] && x.strides[from] == y.strides[d];
    }
    const i64 index = x.strides[a] ? offset / x.strides[a] : 0;
    if (!fits || index >= x.shape[a]) continue;
    const i64 twin = offset_of(e.twin_of(0), e.twin_out());
    const i64 step = e.twin_of(0).geometry().strides[a];
    const i64 size = x.shape[a], twin_size = e.twin_of(0).geometry().shape[a];
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
  const i64 stride = x.strides[axis], begin = stride ? offset / stride : 0;
  const i64 step = y.shape[axis] > 1 && stride ? y.strides[axis] / stride : 1;
  if (stride == 0) e.refuse("of an expanded axis");
  const i64 begin2 = offset2 / x2.strides[axis];
  const i64 end = begin + (y.shape[axis] - 1) * step + 1;
  const i64 end2 = begin2 + (y2.shape[axis] - 1) * step + 1;
  const i64 n = x.shape[axis], n2 = x2.shape[axis];
  // What moves with the axis' size is counted from its end.
  const auto place = [&](i64 own, i64 twin) -> i64 {
    if (own == twin) return own;
    if (own - n != twin - n2) e.refuse("its bounds depend on a dynamic size");
    return own == n ? kEnd : own - n;
  };
  e.put(write_slice(e.w, e.in(0), axis, place(begin, begin2), place(end, end2), step));
}

void cat(OpExport& e) {
  const Geometry& y = e.out().geometry();
  Texts parts;
  int axis = -1;
  for (int i = 0; i < e.operands(); ++i) {
    const Geometry& x = e.of(i).geometry();
    if (x.numel == 0) continue;
    parts.push_back(e.in(i, e.out().dtype()));
    for (int d = 0; d < y.ndim; ++d)
      if (x.shape[d] != y.shape[d]) axis = d;
  }
  if (parts.empty()) e.refuse("a result without elements");
  if (parts.size() == 1) return e.put(e.w.node("Identity", {parts[0]}));
  e.put(e.w.node("Concat", parts, {attribute("axis", i64{axis})}));
}

// Where `part` begins in `whole`, by axis.
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
    if (g.shape[d] == 1) continue;
    at[d] = offset / g.strides[d];
    offset %= g.strides[d];
  }
  return at;
}

void pad(OpExport& e) {
  const TracedKernel* copy = e.kernel<CopyArgs>();
  const TracedKernel* fill = e.kernel<FillArgs>();
  if (!copy || e.of(0).geometry().numel == 0) e.refuse("nothing of its operand is left");
  const Geometry &x = e.of(0).geometry(), &y = e.out().geometry();
  const Shape to = begin_of(copy->views[0], e.out()), from = begin_of(copy->views[1], e.of(0));
  std::vector<i64> before, after;
  for (int d = 0; d < x.ndim; ++d) {
    const i64 kept = copy->views[0].geometry.shape[d];
    before.push_back(to[d] > 0 ? to[d] : -from[d]);
    const i64 behind = y.shape[d] - to[d] - kept, cropped = x.shape[d] - from[d] - kept;
    after.push_back(behind > 0 ? behind : -cropped);
    if (e.dynamic_in(0, d) && e.twin_out().geometry().shape[d] !=
                                  e.twin_of(0).geometry().shape[d] + before.back() + after.back())
      e.refuse("its numbers depend on a dynamic size");
  }
  before.insert(before.end(), after.begin(), after.end());
  Texts inputs{e.in(0), e.w.integers(before)};
  if (fill) {
    const DType t = e.out().dtype();
    const FillArgs& f = e.args<FillArgs>();
    inputs.push_back(e.w.number(t, is_floating(t) ? Scalar(f.f) : Scalar(f.i)));
  }
  e.put(e.w.node("Pad", inputs, {attribute("mode", "constant")}));
}

void flip(OpExport& e) {
  const TracedKernel* copy = e.kernel<CopyArgs>();
  if (!copy) e.refuse("a result without elements");
  std::vector<i64> axes, first, last, steps;
  for (int d = 0; d < e.of(0).geometry().ndim; ++d)
    if (copy->views[1].geometry.strides[d] < 0)
      axes.push_back(d), first.push_back(-1), last.push_back(-kEnd), steps.push_back(-1);
  if (axes.empty()) return e.put(e.w.node("Identity", {e.in(0)}));
  e.put(e.w.node("Slice", {e.in(0), e.w.integers(first), e.w.integers(last), e.w.integers(axes),
                           e.w.integers(steps)}));
}

// Of an operator in place: what is written, as far as the tensor.
void copy_(OpExport& e) {
  const DType t = e.out().dtype();
  if (e.of(1).shape() == e.out().shape()) return e.put(e.in(1, t));
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
  const bool moves = e.dynamic_in(0, a.axis);
  e.same(!moves || a.map.scale > 0, "its size");
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
