#include "warptape/autograd/slices.h"

#include "warptape/autograd/engine.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/kernels/copy.h"

namespace wt::detail {
namespace {

constexpr OpInfo kSplit{.name = "vmap_split", .derivative = Derivative::linear};
constexpr OpInfo kJoin{.name = "vmap_join", .derivative = Derivative::linear};

struct Along {
  SliceAxis level;
  int axis;
};

// From here on gradients have slices; the walk puts the mode back.
void split_backward(Backward& g) {
  const Along& a = g.attribute<Along>();
  g.put(0, join_slices(g.grad(), a.axis, a.level));
}
void join_backward(Backward& g) {
  const Along& a = g.attribute<Along>();
  mode.slow |= kSlowSliced;
  g.engine.indirect_ = true;
  g.put(0, split_slices(g.grad(), a.axis, a.level));
}

SliceAxes without(const SliceAxes& axes, u64 level) {
  SliceAxes rest;
  for (const SliceAxis& a : axes)
    if (a.level != level) rest.merge(a);
  return rest;
}

// The geometry of one slice with the level's axis in front.
Geometry with_level(const Geometry& slice, const SliceAxis& level) {
  Geometry g = slice;
  g.ndim = u8(slice.ndim + 1);
  g.shape[0] = level.count;
  g.strides[0] = level.step / item_size(slice.dtype);
  for (int d = 0; d < slice.ndim; ++d)
    g.shape[d + 1] = slice.shape[d], g.strides[d + 1] = slice.strides[d];
  finish_geometry(g);
  return g;
}
// The same with axis `from` moved to the front.
Geometry moved_to_front(const Geometry& of, int from) {
  Geometry g = of;
  g.shape[0] = of.shape[from];
  g.strides[0] = of.strides[from];
  for (int d = 0; d < from; ++d) g.shape[d + 1] = of.shape[d], g.strides[d + 1] = of.strides[d];
  finish_geometry(g);
  return g;
}

void copy_at_level(const View& to, const View& from, u64 level, const OpScope& s) {
  const VisibleLevel visible(level);
  if (to.numel() > 0) run(CopyArgs{to, from}, s.launch());
}

}  // namespace

Tensor split_slices(const Tensor& x, int axis, const SliceAxis& level) {
  const In in(x);
  OpScope s(kSplit, in);
  const Geometry from = moved_to_front(s.geometry(0), axis);
  SliceAxes axes;
  if (const SliceAxes* outer = slices_of(x.impl())) axes = *outer;
  axes.merge(level);
  const SliceScope scope(axes);
  Result y = s.result(from.shape + 1, from.ndim - 1, s.dtype());
  s.record(split_backward);
  s.set_attribute(Along{level, axis});
  const Geometry to = with_level(y.impl()->geometry, *slices_of(y.impl())->find(level.level));
  copy_at_level({y.impl()->data, &to}, {x.impl()->data, &from}, level.level, s);
  return s.finish(std::move(y));
}

Tensor join_slices(const Tensor& x, int axis, const SliceAxis& level) {
  const SliceAxes* axes = slices_of(x.impl());
  const SliceAxis* own = axes ? axes->find(level.level) : nullptr;
  if (!own) {
    Shape shape = x.shape();
    shape.insert(axis, level.count);
    return expand(unsqueeze(x, axis), shape);
  }
  const In in(x);
  OpScope s(kJoin, in);
  if (s.geometry(0).ndim == kMaxDims)
    s.fail<ShapeError>(str("the mapped axis would be dimension ", kMaxDims + 1, " of ", kMaxDims));
  Shape shape = shape_of(s.geometry(0));
  shape.insert(axis, level.count);
  const SliceScope scope(without(*axes, level.level));
  Result y = s.result(shape, s.dtype());
  s.record(join_backward);
  s.set_attribute(Along{level, axis});
  const Geometry to = moved_to_front(y.impl()->geometry, axis);
  const Geometry from = with_level(s.geometry(0), *own);
  copy_at_level({y.impl()->data, &to}, {x.impl()->data, &from}, level.level, s);
  return s.finish(std::move(y));
}

void sum_closed_slices(Tensor& g, const Node* n) {
  const SliceAxes* axes = slices_of(g.impl());
  if (!axes) return;
  const SliceAxes of_gradient = *axes;
  for (int i = of_gradient.n; i-- > 0;) {
    const SliceAxis& a = of_gradient.axis[i];
    if (is_open_level(a.level) || (n && n->sequence > a.since)) continue;
    g = sum(join_slices(g, 0, a), {0});
  }
}

}  // namespace wt::detail
