// Pooling. Maxima keep the tap that they chose; scattering by taps and gathering by them are each
// other's derivative, and so are the forward and the backward of averages.
#include "warptape/autograd/ops/pool.h"

#include <type_traits>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/internal/window.h"
#include "warptape/kernels/pool.h"

namespace wt {
namespace info {
constexpr OpInfo max_pool1d{.name = "max_pool1d", .derivative = Derivative::piecewise};
constexpr OpInfo max_pool2d{.name = "max_pool2d", .derivative = Derivative::piecewise};
constexpr OpInfo max_pool3d{.name = "max_pool3d", .derivative = Derivative::piecewise};
constexpr OpInfo adaptive_max_pool2d{.name = "adaptive_max_pool2d",
                                     .derivative = Derivative::piecewise};
constexpr OpInfo avg_pool1d{.name = "avg_pool1d", .derivative = Derivative::linear};
constexpr OpInfo avg_pool2d{.name = "avg_pool2d", .derivative = Derivative::linear};
constexpr OpInfo avg_pool3d{.name = "avg_pool3d", .derivative = Derivative::linear};
constexpr OpInfo adaptive_avg_pool1d{.name = "adaptive_avg_pool1d",
                                     .derivative = Derivative::linear};
constexpr OpInfo adaptive_avg_pool2d{.name = "adaptive_avg_pool2d",
                                     .derivative = Derivative::linear};
constexpr OpInfo adaptive_avg_pool3d{.name = "adaptive_avg_pool3d",
                                     .derivative = Derivative::linear};
}  // namespace info

namespace {

// What a node keeps; the operator says the rest. Fits into a node.
struct PoolSteps {
  i32 kernel[3], stride[3], padding[3];
  i32 dilation[3];  // of maxima
};
struct AvgSteps {
  i32 kernel[3], stride[3], padding[3];
  i32 count_padding;
  i64 divisor;
};

bool is_adaptive(const OpInfo* op) {
  for (const OpInfo* one : {&info::adaptive_max_pool2d, &info::adaptive_avg_pool1d,
                            &info::adaptive_avg_pool2d, &info::adaptive_avg_pool3d})
    if (op == one) return true;
  return false;
}
// The names end in the number of axes and a d.
int axes_of(const OpInfo* op) {
  const char* end = op->name;
  while (*end) ++end;
  return end[-2] - '0';
}

// Of x [.., in...] and y [.., out...].
template <class Steps>
PoolShape pool_shape(const OpInfo* op, const Shape& x, const Shape& y, const Steps& steps,
                     DType t) {
  PoolShape s;
  const int axes = axes_of(op), lead = x.ndim() - axes;
  s.batch = lead == 2 ? x[0] : 1;
  s.channels = x[lead - 1];
  s.dtype = t;
  s.adaptive = is_adaptive(op);
  for (int d = 0; d < 3; ++d) {
    const int own = d - (3 - axes);
    s.in[d] = own < 0 ? 1 : x[lead + own];
    s.out[d] = own < 0 ? 1 : y[lead + own];
    s.kernel[d] = own < 0 ? 1 : steps.kernel[own];
    s.stride[d] = own < 0 ? 1 : steps.stride[own];
    s.padding[d] = own < 0 ? 0 : steps.padding[own];
    s.dilation[d] = 1;
    if constexpr (std::is_same_v<Steps, PoolSteps>)
      if (own >= 0) s.dilation[d] = steps.dilation[own];
  }
  if constexpr (std::is_same_v<Steps, AvgSteps>) {
    s.count_padding = steps.count_padding != 0;
    s.divisor = steps.divisor;
  }
  return s;
}
DType taps_dtype(const PoolSteps& steps, int axes) {
  double taps = 1;
  for (int d = 0; d < axes; ++d) taps *= steps.kernel[d];
  return taps <= 256 ? DType::u8 : DType::i32;
}

// --- maxima ---

void scatter_backward(Backward& g);
void gather_backward(Backward& g);

// gx [.., sizes...] from gy and taps.
Tensor scatter_taps(const OpInfo* op, const In& gy, const In& taps, const PoolSteps& steps,
                    const Shape& sizes) {
  OpScope s(*op, gy, taps, Types::any);
  const int axes = axes_of(op);
  const Shape y = shape_of(s.geometry(0));
  const Shape x = detail::with_channels(y, axes, y[y.ndim() - axes - 1], sizes);
  s.save_input(1);
  Result gx = detail::result_in_order_of(s, 1, x, axes, s.dtype(0));
  s.record(scatter_backward);
  s.set_attribute(steps);
  run(MaxPoolBackwardArgs{pool_shape(op, x, y, steps, s.dtype()),
                          detail::spatial_tensor(gx.impl(), axes),
                          detail::spatial_tensor(s.impl(0), axes),
                          detail::spatial_tensor(s.impl(1), axes)},
      s.launch());
  return s.finish(std::move(gx));
}

// y [.., sizes...] from x and taps.
Tensor gather_taps(const OpInfo* op, const In& x, const In& taps, const PoolSteps& steps) {
  OpScope s(*op, x, taps, Types::any);
  const int axes = axes_of(op);
  const Shape y = shape_of(s.geometry(1));
  s.save_input(1);
  Result r = detail::result_in_order_of(s, 1, y, axes, s.dtype(0));
  s.record(gather_backward);
  s.set_attribute(steps);
  run(MaxPoolGatherArgs{pool_shape(op, shape_of(s.geometry(0)), y, steps, s.dtype()),
                        detail::spatial_tensor(r.impl(), axes),
                        detail::spatial_tensor(s.impl(0), axes),
                        detail::spatial_tensor(s.impl(1), axes)},
      s.launch());
  return s.finish(std::move(r));
}

void scatter_backward(Backward& g) {
  g.put(0, gather_taps(g.node->info, g.grad(), g.saved(0), g.attribute<PoolSteps>()));
}
// Also of the pooling itself: what it saved are the taps.
void gather_backward(Backward& g) {
  const OpInfo* op = g.node->info;
  const Tensor& taps = g.saved(0);
  const Tensor gy = detail::gapless(g.grad(), taps, axes_of(op));
  g.put(0, scatter_taps(op, gy, taps, g.attribute<PoolSteps>(),
                        detail::spatial(g.input_shape(0), axes_of(op))));
}

// --- checks ---

// An optional stride.
const PerAxis& stride_or(const std::optional<PerAxis>& stride, const PerAxis& kernel) {
  return stride ? *stride : kernel;
}

// Checks x and the numbers, fills `steps`; returns y's shape.
template <class Steps>
Shape check_windows(const OpScope& s, Steps& steps, const PerAxis& kernel, const PerAxis& stride,
                    const PerAxis& padding, const i32* dilation, bool ceil_mode) {
  const int axes = axes_of(&s.info());
  const detail::WindowCheck check{s, axes};
  check.input("x");
  check.numbers("kernel", kernel, 1, steps.kernel);
  check.numbers("stride", stride, 1, steps.stride);
  check.numbers("padding", padding, 0, steps.padding);
  const Shape x = shape_of(s.geometry(0)), in = detail::spatial(x, axes);
  Shape out;
  double taps = 1;
  for (int d = 0; d < axes; ++d) {
    if (steps.padding[d] > steps.kernel[d] / 2)
      s.fail<UsageError>(
          str("padding ", steps.padding[d], " is more than half the kernel ", steps.kernel[d]));
    if (in[d] == 0) s.fail<ShapeError>(str("x's size is 0 in spatial axis ", d));
    const i64 reach = check.reach(steps.kernel[d], dilation ? dilation[d] : 1);
    out.push_back(check.positions(d, in[d], reach, steps.stride[d], steps.padding[d], ceil_mode));
    taps *= steps.kernel[d];
  }
  if (taps > double(INT32_MAX)) s.fail<UsageError>("kernel has 2^31 elements or more");
  const Shape y = detail::with_channels(x, axes, x[x.ndim() - axes - 1], out);
  check_numel(s, y);
  return y;
}

// The same for windows of nearly equal length; the kernel bounds it.
template <class Steps>
Shape check_adaptive(const OpScope& s, Steps& steps, const PerAxis& sizes) {
  const int axes = axes_of(&s.info());
  const detail::WindowCheck check{s, axes};
  check.input("x");
  i32 wanted[3];
  check.numbers("sizes", sizes, 1, wanted);
  const Shape x = shape_of(s.geometry(0)), in = detail::spatial(x, axes);
  Shape out;
  double taps = 1;
  for (int d = 0; d < axes; ++d) {
    if (in[d] == 0) s.fail<ShapeError>(str("x's size is 0 in spatial axis ", d));
    out.push_back(wanted[d]);
    const i64 length = in[d] % wanted[d] == 0 ? in[d] / wanted[d] : in[d] / wanted[d] + 2;
    taps *= double(length);
    if (taps > double(INT32_MAX)) s.fail<UsageError>("a window has 2^31 elements or more");
    steps.kernel[d] = i32(length);
    steps.stride[d] = 1;
  }
  const Shape y = detail::with_channels(x, axes, x[x.ndim() - axes - 1], out);
  check_numel(s, y);
  return y;
}

// --- forward ---

Tensor max_forward(OpScope& s, const PoolSteps& steps, const Shape& y, Tensor* indices,
                   bool ceil_mode) {
  const OpInfo* op = &s.info();
  const int axes = axes_of(op);
  ConvTensor taps{}, at{};
  if (s.recording()) {
    Result t = detail::result_in_order_of(s, 0, y, axes, taps_dtype(steps, axes));
    taps = detail::spatial_tensor(t.impl(), axes);
    retain(t.impl());
    s.save_extra(Tensor(t.impl()));
  }
  if (indices) {
    Result t = detail::result_in_order_of(s, 0, y, axes, DType::i64);
    at = detail::spatial_tensor(t.impl(), axes);
    retain(t.impl());
    *indices = Tensor(t.impl());
  }
  Result r = detail::result_in_order_of(s, 0, y, axes);
  s.record(gather_backward);
  s.set_attribute(steps);
  PoolShape shape = pool_shape(op, shape_of(s.geometry(0)), y, steps, s.dtype());
  shape.ceil_mode = ceil_mode;
  run(MaxPoolForwardArgs{shape, detail::spatial_tensor(r.impl(), axes), taps, at,
                         detail::spatial_tensor(s.impl(0), axes)},
      s.launch());
  return s.finish(std::move(r));
}

Tensor max_pool(OpScope& s, const PerAxis& kernel, const MaxPoolOptions& o, Tensor* indices) {
  PoolSteps steps{};
  const detail::WindowCheck check{s, axes_of(&s.info())};
  check.numbers("dilation", o.dilation, 1, steps.dilation);
  const Shape y = check_windows(s, steps, kernel, stride_or(o.stride, kernel), o.padding,
                                steps.dilation, o.ceil_mode);
  return max_forward(s, steps, y, indices, o.ceil_mode);
}

void avg_forward_backward(Backward& g);
void avg_backward_backward(Backward& g);

Tensor avg_forward(OpScope& s, const AvgSteps& steps, const Shape& y, bool ceil_mode = false) {
  const OpInfo* op = &s.info();
  const int axes = axes_of(op);
  Result r = detail::result_in_order_of(s, 0, y, axes);
  s.record(avg_forward_backward);
  s.set_attribute(steps);
  PoolShape shape = pool_shape(op, shape_of(s.geometry(0)), y, steps, s.dtype());
  shape.ceil_mode = ceil_mode;
  run(AvgPoolForwardArgs{shape, detail::spatial_tensor(r.impl(), axes),
                         detail::spatial_tensor(s.impl(0), axes)},
      s.launch());
  return s.finish(std::move(r));
}

Tensor avg_to(const OpInfo* op, const In& x, const AvgSteps& steps, const Shape& y) {
  OpScope s(*op, x);
  return avg_forward(s, steps, y);
}
Tensor avg_from(const OpInfo* op, const In& gy, const AvgSteps& steps, const Shape& x) {
  OpScope s(*op, gy);
  const int axes = axes_of(op);
  Result gx = detail::result_in_order_of(s, 0, x, axes);
  s.record(avg_backward_backward);
  s.set_attribute(steps);
  run(AvgPoolBackwardArgs{pool_shape(op, x, shape_of(s.geometry(0)), steps, s.dtype()),
                          detail::spatial_tensor(gx.impl(), axes),
                          detail::spatial_tensor(s.impl(0), axes)},
      s.launch());
  return s.finish(std::move(gx));
}

void avg_forward_backward(Backward& g) {
  const OpInfo* op = g.node->info;
  const Tensor gy = detail::gapless(g.grad(), {}, axes_of(op));
  g.put(0, avg_from(op, gy, g.attribute<AvgSteps>(), g.input_shape(0)));
}
void avg_backward_backward(Backward& g) {
  g.put(0, avg_to(g.node->info, g.grad(), g.attribute<AvgSteps>(), g.input_shape(0)));
}

Tensor avg_pool(OpScope& s, const PerAxis& kernel, const AvgPoolOptions& o) {
  AvgSteps steps{};
  const Shape y =
      check_windows(s, steps, kernel, stride_or(o.stride, kernel), o.padding, nullptr, o.ceil_mode);
  if (o.divisor_override && *o.divisor_override == 0)
    s.fail<UsageError>("divisor_override must not be 0");
  steps.count_padding = o.count_include_pad;
  steps.divisor = o.divisor_override.value_or(0);
  return avg_forward(s, steps, y, o.ceil_mode);
}

Tensor adaptive_avg_pool(OpScope& s, const PerAxis& sizes) {
  AvgSteps steps{};
  const Shape y = check_adaptive(s, steps, sizes);
  return avg_forward(s, steps, y);
}

}  // namespace

// --- the functions ---

#define WT_POOLS(axes)                                                                          \
  Tensor max_pool##axes##d(const In& x, const PerAxis& kernel, const MaxPoolOptions& options) { \
    OpScope s(info::max_pool##axes##d, x);                                                      \
    return max_pool(s, kernel, options, nullptr);                                               \
  }                                                                                             \
  MaxPool max_pool##axes##d_with_indices(const In& x, const PerAxis& kernel,                    \
                                         const MaxPoolOptions& options) {                       \
    OpScope s(info::max_pool##axes##d, x);                                                      \
    Tensor indices;                                                                             \
    Tensor values = max_pool(s, kernel, options, &indices);                                     \
    return {std::move(values), std::move(indices)};                                             \
  }                                                                                             \
  Tensor avg_pool##axes##d(const In& x, const PerAxis& kernel, const AvgPoolOptions& options) { \
    OpScope s(info::avg_pool##axes##d, x);                                                      \
    return avg_pool(s, kernel, options);                                                        \
  }                                                                                             \
  Tensor adaptive_avg_pool##axes##d(const In& x, const PerAxis& sizes) {                        \
    OpScope s(info::adaptive_avg_pool##axes##d, x);                                             \
    return adaptive_avg_pool(s, sizes);                                                         \
  }
WT_POOLS(1)
WT_POOLS(2)
WT_POOLS(3)
#undef WT_POOLS

Tensor adaptive_max_pool2d(const In& x, const PerAxis& sizes) {
  OpScope s(info::adaptive_max_pool2d, x);
  PoolSteps steps{};
  for (i32& d : steps.dilation) d = 1;
  const Shape y = check_adaptive(s, steps, sizes);
  return max_forward(s, steps, y, nullptr, false);
}

namespace detail {
OpInfos pool_ops() {
  static constexpr const OpInfo* kOps[] = {&info::max_pool1d,          &info::max_pool2d,
                                           &info::max_pool3d,          &info::adaptive_max_pool2d,
                                           &info::avg_pool1d,          &info::avg_pool2d,
                                           &info::avg_pool3d,          &info::adaptive_avg_pool1d,
                                           &info::adaptive_avg_pool2d, &info::adaptive_avg_pool3d};
  return kOps;
}
}  // namespace detail

}  // namespace wt
