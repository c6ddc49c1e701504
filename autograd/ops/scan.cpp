// Scans. Every derivative of one is a scan in the other direction.
#include "warptape/autograd/ops/scan.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/reduced_axes.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/scan.h"

namespace wt {
namespace info {
constexpr OpInfo cumsum{
    .name = "cumsum", .autocast = Autocast::f32, .derivative = Derivative::linear};
constexpr OpInfo cumprod{.name = "cumprod", .autocast = Autocast::f32};
constexpr OpInfo linear_scan{.name = "linear_scan", .autocast = Autocast::f32};
}  // namespace info

namespace {

struct Along {
  int axis;
  bool reverse;
};

// x moved by one place along the axis, `fill` in the place that is left: element k is x's k + 1
// when `from_next`, else k - 1.
Tensor shifted(const Tensor& x, int axis, bool from_next, double fill) {
  if (x.numel() == 0) return x;
  if (x.ndim() == 0) return full_like(x, fill);
  const i64 n = x.size(axis);
  Shape one = x.shape();
  one[axis] = 1;
  const Tensor edge = full(one, fill, {.dtype = x.dtype(), .device = x.device()});
  if (from_next) return cat({slice(x, axis, {1, n}), edge}, axis);
  return cat({edge, slice(x, axis, {0, n - 1})}, axis);
}

// --- running sums ---
void cumsum_backward(Backward& g);

Tensor running_sum(const In& x, Dim axis, bool reverse) {
  OpScope s(info::cumsum, x);
  detail::require_computing(s);
  const int at = s.axis(axis.value, s.geometry(0).ndim);
  Result y = s.result_like();
  s.record(cumsum_backward);
  s.set_attribute(Along{at, reverse});
  run(ScanArgs{y.view(), {}, s.view(0), at, reverse}, s.launch());
  return s.finish(std::move(y));
}
void cumsum_backward(Backward& g) {
  const Along a = g.attribute<Along>();
  g.put(0, running_sum(g.take_grad(), a.axis, !a.reverse));
}

// --- linear recurrences ---
// With t the scan of gy in the other direction, where a has moved by one place: gb = t and
// ga_k = t_k y_(k-1).
void linear_scan_backward(Backward& g) {
  const Along along = g.attribute<Along>();
  const Tensor &a = g.saved(0), &y = g.saved(1);
  const Tensor t = linear_scan(shifted(a, along.axis, !along.reverse, 0), g.take_grad(), along.axis,
                               {.reverse = !along.reverse});
  if (g.wants(0)) g.put(0, mul(t, shifted(y, along.axis, along.reverse, 0)));
  if (g.wants(1)) g.put(1, t);
}

// --- running products ---
// d y_i / d x_k is the product of the x before k, times that of the x from k + 1 to i; summed over
// i >= k with gy_i the second is a recurrence. No division, so zeros are right.
void cumprod_backward(Backward& g) {
  const int axis = g.attribute<int>();
  const Tensor &x = g.saved(0), &y = g.saved(1);
  const Tensor later =
      linear_scan(shifted(x, axis, true, 0), g.take_grad(), axis, {.reverse = true});
  g.put(0, mul(shifted(y, axis, false, 1), later));
}

// Integers and bool are counted in i64.
bool counts_in_i64(const In& x) {
  if (!x.impl()) return false;
  const DType t = dtype_of(x.impl());
  return computes(t) && !is_floating(t) && t != DType::i64;
}
Tensor as_i64(const In& x) { return to_dtype(Tensor(detail::retained(x.impl())), DType::i64); }

}  // namespace

Tensor cumsum(const In& x, Dim axis) {
  const FrameScope lines(x.frame());
  return counts_in_i64(x) ? running_sum(as_i64(x), axis, false) : running_sum(x, axis, false);
}

Tensor cumprod(const In& x, Dim axis) {
  const FrameScope lines(x.frame());
  if (counts_in_i64(x)) return cumprod(as_i64(x), axis);
  OpScope s(info::cumprod, x);
  detail::require_computing(s);
  const int at = s.axis(axis.value, s.geometry(0).ndim);
  s.save_input(0);
  s.save_output();
  Result y = s.result_like();
  s.record(cumprod_backward);
  s.set_attribute(at);
  run(ScanArgs{y.view(), s.view(0), {}, at, false}, s.launch());
  return s.finish(std::move(y));
}

Tensor linear_scan(const In& a, const In& b, Dim axis, LinearScanOptions options) {
  OpScope s(info::linear_scan, a, b);
  detail::require_floating(s);
  if (!same_shape(s.geometry(0), s.geometry(1)))
    s.fail<ShapeError>(
        str("a ", shape_of(s.geometry(0)), " and b ", shape_of(s.geometry(1)), " differ"));
  const int at = s.axis(axis.value, s.geometry(0).ndim);
  s.save_input(0);
  s.save_output();
  Result y = s.result_like(1);
  s.record(linear_scan_backward);
  s.set_attribute(Along{at, options.reverse});
  run(ScanArgs{y.view(), s.view(0), s.view(1), at, options.reverse}, s.launch());
  return s.finish(std::move(y));
}

namespace detail {
OpInfos scan_ops() {
  static constexpr const OpInfo* kOps[] = {&info::cumsum, &info::cumprod, &info::linear_scan};
  return kOps;
}
}  // namespace detail

}  // namespace wt
