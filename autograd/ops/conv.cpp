// Convolution. Three recorded operators, each of whose gradients are the other two:
//
//   y = conv(x, w)          dx = conv_input(dy, w)     dw = conv_weight(dy, x)
//   x = conv_input(y, w)    dy = conv(dx, w)           dw = conv_weight(y, dx)
//   w = conv_weight(y, x)   dy = conv(x, dw)           dx = conv_input(y, dw)
#include "warptape/autograd/ops/conv.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/convolution.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/internal/window.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"

namespace wt {
namespace info {
constexpr OpInfo conv1d{.name = "conv1d", .autocast = Autocast::lower};
constexpr OpInfo conv2d{.name = "conv2d", .autocast = Autocast::lower};
constexpr OpInfo conv3d{.name = "conv3d", .autocast = Autocast::lower};
constexpr OpInfo conv_transpose1d{.name = "conv_transpose1d", .autocast = Autocast::lower};
constexpr OpInfo conv_transpose2d{.name = "conv_transpose2d", .autocast = Autocast::lower};
constexpr OpInfo conv_transpose3d{.name = "conv_transpose3d", .autocast = Autocast::lower};
constexpr OpInfo conv_weight_grad{.name = "conv_weight_grad", .autocast = Autocast::lower};
}  // namespace info

namespace {

const OpInfo& conv_info(int axes) {
  return axes == 1 ? info::conv1d : axes == 2 ? info::conv2d : info::conv3d;
}
const OpInfo& transposed_info(int axes) {
  return axes == 1   ? info::conv_transpose1d
         : axes == 2 ? info::conv_transpose2d
                     : info::conv_transpose3d;
}

using detail::ConvSteps, detail::conv_shape, detail::conv_to, detail::packed_bias;
enum : int { kX = detail::kConvX, kWeight = detail::kConvWeight, kBias = detail::kConvBias };

const void* data_of(const Tensor& t) { return t.defined() ? t.impl()->data : nullptr; }

// --- the three operators ---

void conv_backward(Backward& g);
void conv_input_backward(Backward& g);
void conv_weight_backward(Backward& g);

// Operands x, w and perhaps bias; `out`: y's spatial sizes. Everything is checked.
Tensor run_conv(OpScope& s, const ConvSteps& c, const Shape& out) {
  const Shape x = shape_of(s.geometry(kX)), w = shape_of(s.geometry(kWeight));
  const Shape shape = detail::with_channels(x, c.axes, w[0], out);
  check_numel(s, shape);
  const Tensor bias = packed_bias(s, s.size() > kBias ? kBias : -1);
  s.save_input_if(s.wants(kWeight), kX);
  s.save_input_if(s.wants(kX), kWeight);
  Result y = detail::result_in_order_of(s, kX, shape, c.axes);
  s.record(conv_backward);
  s.set_attribute(c);
  run(ConvForwardArgs{conv_shape(x, shape, w, c, s.dtype()),
                      detail::spatial_tensor(y.impl(), c.axes),
                      detail::spatial_tensor(s.impl(kX), c.axes),
                      detail::spatial_tensor(s.impl(kWeight), c.axes), data_of(bias)},
      s.launch());
  return s.finish(std::move(y));
}

// Operands y, w and perhaps bias; `in`: x's spatial sizes.
Tensor run_conv_input(OpScope& s, const ConvSteps& c, const Shape& in) {
  const Shape y = shape_of(s.geometry(kX)), w = shape_of(s.geometry(kWeight));
  const Shape shape =
      detail::with_channels(y, c.axes, checked_mul(w[1], c.groups, "weight's size"), in);
  check_numel(s, shape);
  const Tensor bias = packed_bias(s, s.size() > kBias ? kBias : -1);
  s.save_input_if(s.wants(kWeight), kX);
  s.save_input_if(s.wants(kX), kWeight);
  Result x = detail::result_in_order_of(s, kX, shape, c.axes);
  s.record(conv_input_backward);
  s.set_attribute(c);
  run(ConvBackwardInputArgs{conv_shape(shape, y, w, c, s.dtype()),
                            detail::spatial_tensor(x.impl(), c.axes),
                            detail::spatial_tensor(s.impl(kX), c.axes),
                            detail::spatial_tensor(s.impl(kWeight), c.axes), data_of(bias)},
      s.launch());
  return s.finish(std::move(x));
}

// Operands y, x.
Tensor run_conv_weight(OpScope& s, const ConvSteps& c, const Shape& w) {
  s.save_input_if(s.wants(1), 0);
  s.save_input_if(s.wants(0), 1);
  Result r = s.result(w, s.dtype());
  s.record(conv_weight_backward);
  s.set_attribute(c);
  ConvBackwardWeightArgs args;
  args.shape = conv_shape(shape_of(s.geometry(1)), shape_of(s.geometry(0)), w, c, s.dtype());
  args.w = detail::spatial_tensor(r.impl(), c.axes);
  args.y = detail::spatial_tensor(s.impl(0), c.axes);
  args.x = detail::spatial_tensor(s.impl(1), c.axes);
  run(args, s.launch());
  return s.finish(std::move(r));
}

// For backwards, as conv_to(): without checks and bias.
Tensor conv_input_to(const In& y, const In& w, const ConvSteps& c, const Shape& in) {
  OpScope s(transposed_info(c.axes), y, w);
  return run_conv_input(s, c, in);
}
Tensor conv_weight_to(const In& y, const In& x, const ConvSteps& c, const Shape& w) {
  OpScope s(info::conv_weight_grad, y, x);
  return run_conv_weight(s, c, w);
}

// --- gradients ---

// Over batch and space: [channels].
Tensor sum_of_channels(const Tensor& x, int axes) {
  std::vector<int> others;
  for (int d = 0; d < x.ndim(); ++d)
    if (d != x.ndim() - axes - 1) others.push_back(d);
  return sum(x, others);
}

// The weight's gradient from y and x, and of the bias the sums of y, in one launch; straight into
// leaves' slots.
void put_weight_gradients(Backward& g, const ConvSteps& c, const Tensor& y, const Tensor& x,
                          bool with_bias) {
  const In in_y(y), in_x(x);
  const OpScope s(info::conv_weight_grad, in_y, in_x);
  const Shape w = g.input_shape(kWeight);
  ConvBackwardWeightArgs args;
  args.shape = conv_shape(shape_of(s.geometry(1)), shape_of(s.geometry(0)), w, c, s.dtype());
  args.y = detail::spatial_tensor(s.impl(0), c.axes);
  args.x = detail::spatial_tensor(s.impl(1), c.axes);
  GradDestination dw = g.destination(kWeight);
  GradDestination db = with_bias ? g.destination(kBias) : GradDestination();
  args.w = detail::spatial_tensor(dw.impl(), c.axes);
  args.accumulate = dw.accumulate();
  if (with_bias) {
    args.y_sum = db.impl()->data;
    args.accumulate_y_sum = db.accumulate();
  }
  run(args, s.launch());
  g.put(kWeight, std::move(dw));
  g.put(kBias, std::move(db));
}

void conv_backward(Backward& g) {
  const auto c = g.attribute<ConvSteps>();
  detail::put_conv_gradients(g, c, g.grad(), g.node->n_edges > kBias);
}

void conv_input_backward(Backward& g) {
  const auto c = g.attribute<ConvSteps>();
  const bool bias = g.node->n_edges > kBias && g.wants(kBias), weight = g.wants(kWeight);
  const Tensor gx = detail::gapless(g.grad(), weight ? g.saved(0) : Tensor(), c.axes);
  if (g.wants(kX))
    g.put(kX, conv_to(gx, g.saved(1), c, detail::spatial(g.input_shape(kX), c.axes)));
  if (weight && g.recording())
    g.put(kWeight, conv_weight_to(g.saved(0), gx, c, g.input_shape(kWeight)));
  else if (weight)
    put_weight_gradients(g, c, g.saved(0), gx, false);
  if (bias) g.put(kBias, sum_of_channels(gx, c.axes));
}

void conv_weight_backward(Backward& g) {
  const auto c = g.attribute<ConvSteps>();
  const Tensor& gw = g.grad();
  if (g.wants(0)) g.put(0, conv_to(g.saved(1), gw, c, detail::spatial(g.input_shape(0), c.axes)));
  if (g.wants(1))
    g.put(1, conv_input_to(g.saved(0), gw, c, detail::spatial(g.input_shape(1), c.axes)));
}

// --- checks ---

ConvSteps steps_of(const OpScope& s, int axes, const PerAxis& stride, const PerAxis& dilation,
                   i64 groups) {
  ConvSteps c{};
  c.axes = axes;
  const detail::WindowCheck check{s, axes};
  if (groups < 1 || groups > INT32_MAX)
    s.fail<UsageError>(str("groups must be at least 1, got ", groups));
  c.groups = i32(groups);
  check.numbers("stride", stride, 1, c.stride);
  check.numbers("dilation", dilation, 1, c.dilation);
  return c;
}

// Ranks, dtype, kernel and bias; `first` and `second` name what the weight's first two axes are.
void check_operands(const OpScope& s, int axes, i64 groups, bool transposed, bool bias) {
  const Geometry &x = s.geometry(kX), &w = s.geometry(kWeight);
  detail::WindowCheck{s, axes}.input("x");
  if (w.ndim != axes + 2)
    s.fail<ShapeError>(str(
        "weight has ", int(w.ndim), " dimensions, ", axes + 2, " are needed: ",
        transposed ? "[in channels, out channels / groups" : "[out channels, in channels / groups",
        axes == 1 ? ", kernel]" : ", kernel...]"));
  for (int d = 0; d < axes; ++d)
    if (w.shape[2 + d] == 0) s.fail<ShapeError>("weight has a kernel of size 0");
  const i64 channels = x.shape[x.ndim - axes - 1];
  const i64 divided = transposed ? channels : w.shape[0];
  if (channels % groups != 0 || divided % groups != 0)
    s.fail<ShapeError>(str(channels % groups != 0 ? "x's channels " : "weight's output channels ",
                           channels % groups != 0 ? channels : divided,
                           " cannot be divided among groups ", groups));
  const i64 wanted = transposed ? channels : channels / groups, got = w.shape[transposed ? 0 : 1];
  if (wanted != got)
    s.fail<ShapeError>(str("x has ", channels, " channels, weight takes ",
                           transposed ? got : checked_mul(got, groups, "weight's channels"),
                           groups == 1 ? std::string() : str(" in groups ", groups)));
  if (!bias) return;
  const i64 results = transposed ? checked_mul(w.shape[1], groups, "weight's size") : w.shape[0];
  const Geometry& b = s.geometry(kBias);
  if (b.ndim != 1 || b.shape[0] != results)
    s.fail<ShapeError>(str("bias ", shape_of(b), " \u2260 output channels [", results, "]"));
}

// The padding's numbers into c; returns y's spatial sizes.
Shape conv_sizes(const OpScope& s, ConvSteps& c, const Shape& in, const Shape& kernel,
                 const ConvPadding& padding) {
  const detail::WindowCheck check{s, c.axes};
  check.numbers("padding", padding.numbers(), 0, c.padding);
  Shape out;
  for (int d = 0; d < c.axes; ++d) {
    const i64 reach = check.reach(kernel[d], c.dilation[d]);
    if (padding.is_same()) {
      if (c.stride[d] != 1)
        s.fail<UsageError>(str("padding same needs stride 1, got ", c.stride[d]));
      if (reach - 1 > 2 * i64(INT32_MAX))
        s.fail<ShapeError>("padding same: the kernel is too large");
      c.padding[d] = i32((reach - 1) / 2);
      out.push_back(in[d]);
    } else {
      out.push_back(check.positions(d, in[d], reach, c.stride[d], c.padding[d], false));
    }
  }
  return out;
}

Tensor conv(OpScope& s, int axes, const ConvOptions& o) {
  ConvSteps c;
  const Shape y = detail::check_conv(s, axes, o, s.size() > kBias, c);
  return run_conv(s, c, detail::spatial(y, axes));
}

Tensor conv_transpose(OpScope& s, int axes, const ConvTransposeOptions& o) {
  ConvSteps c = steps_of(s, axes, o.stride, o.dilation, o.groups);
  check_operands(s, axes, o.groups, true, s.size() > kBias);
  const detail::WindowCheck check{s, axes};
  i32 extra[3];
  check.numbers("padding", o.padding, 0, c.padding);
  check.numbers("output_padding", o.output_padding, 0, extra);
  const Shape from = detail::spatial(shape_of(s.geometry(kX)), axes);
  const Shape kernel = detail::spatial(shape_of(s.geometry(kWeight)), axes);
  Shape in;
  for (int d = 0; d < axes; ++d) {
    if (extra[d] >= c.stride[d] && extra[d] >= c.dilation[d])
      s.fail<UsageError>(str("output_padding ", extra[d], " must be less than stride ", c.stride[d],
                             " or dilation ", c.dilation[d]));
    if (from[d] == 0) s.fail<ShapeError>(str("x's size is 0 in spatial axis ", d));
    const i64 span = checked_mul(from[d] - 1, c.stride[d], "the output's size");
    const i64 size = checked_add(span, check.reach(kernel[d], c.dilation[d]), "the output's size") -
                     2 * i64(c.padding[d]) + extra[d];
    if (size < 1)
      s.fail<ShapeError>(
          str("padding ", c.padding[d], " leaves nothing of spatial axis ", d, ": size ", size));
    in.push_back(size);
  }
  return run_conv_input(s, c, in);
}

}  // namespace

// --- the functions ---

#define WT_CONV(name, axes, Options, function)                                         \
  Tensor name(const In& x, const In& weight, const Options& options) {                 \
    OpScope s(info::name, x, weight);                                                  \
    return function(s, axes, options);                                                 \
  }                                                                                    \
  Tensor name(const In& x, const In& weight, const In& bias, const Options& options) { \
    OpScope s(info::name, x, weight, bias);                                            \
    return function(s, axes, options);                                                 \
  }
WT_CONV(conv1d, 1, ConvOptions, conv)
WT_CONV(conv2d, 2, ConvOptions, conv)
WT_CONV(conv3d, 3, ConvOptions, conv)
WT_CONV(conv_transpose1d, 1, ConvTransposeOptions, conv_transpose)
WT_CONV(conv_transpose2d, 2, ConvTransposeOptions, conv_transpose)
WT_CONV(conv_transpose3d, 3, ConvTransposeOptions, conv_transpose)
#undef WT_CONV

Tensor conv_weight_grad(const In& gy, const In& x, const Shape& weight, const ConvOptions& o) {
  OpScope s(info::conv_weight_grad, gy, x);
  const int axes = weight.ndim() - 2;
  if (axes < 1 || axes > 3)
    s.fail<ShapeError>(str("weight has ", weight.ndim(), " dimensions, 3 to 5 are needed"));
  ConvSteps c = steps_of(s, axes, o.stride, o.dilation, o.groups);
  detail::WindowCheck{s, axes}.input("gy");
  const Shape y = shape_of(s.geometry(0)), in = shape_of(s.geometry(1));
  if (in.ndim() != y.ndim())
    s.fail<ShapeError>(str("x has ", in.ndim(), " dimensions, gy ", y.ndim()));
  numel_of(weight);
  for (i64 k : detail::spatial(weight, axes))
    if (k == 0) s.fail<ShapeError>("weight has a kernel of size 0");
  const i64 channels = in[in.ndim() - axes - 1];
  if (checked_mul(weight[1], o.groups, "weight's channels") != channels ||
      weight[0] % o.groups != 0)
    s.fail<ShapeError>(
        str("weight ", weight, " does not fit x's channels ", channels, " in groups ", o.groups));
  const Shape out =
      conv_sizes(s, c, detail::spatial(in, axes), detail::spatial(weight, axes), o.padding);
  const Shape want = detail::with_channels(in, axes, weight[0], out);
  if (y != want) s.fail<ShapeError>(str("gy ", y, " \u2260 the convolution's result ", want));
  return run_conv_weight(s, c, weight);
}

namespace detail {

// --- for ops/fused_conv.cpp ---

ConvShape conv_shape(const Shape& x, const Shape& y, const Shape& w, const ConvSteps& c, DType t) {
  ConvShape s;
  const int lead = x.ndim() - c.axes;
  s.batch = lead == 2 ? x[0] : 1;
  s.in_channels = x[lead - 1];
  s.out_channels = y[lead - 1];
  s.groups = c.groups;
  s.dtype = t;
  for (int d = 0; d < 3; ++d) {
    const int own = d - (3 - c.axes);
    s.in[d] = own < 0 ? 1 : x[lead + own];
    s.out[d] = own < 0 ? 1 : y[lead + own];
    s.kernel[d] = own < 0 ? 1 : w[2 + own];
    s.stride[d] = own < 0 ? 1 : c.stride[own];
    s.padding[d] = own < 0 ? 0 : c.padding[own];
    s.dilation[d] = own < 0 ? 1 : c.dilation[own];
  }
  return s;
}

Tensor packed_bias(const OpScope& s, int i) {
  if (i < 0) return {};
  const Tensor b(retained(s.impl(i)));
  const NoGrad no_grad;
  return contiguous(b);
}
Tensor conv_to(const In& x, const In& w, const ConvSteps& c, const Shape& out) {
  OpScope s(conv_info(c.axes), x, w);
  return run_conv(s, c, out);
}

void put_conv_gradients(Backward& g, const ConvSteps& c, const Tensor& dy, bool bias) {
  bias = bias && g.wants(kBias);
  const bool weight = g.wants(kWeight);
  const Tensor gy = gapless(dy, weight ? g.saved(0) : Tensor(), c.axes);
  if (g.wants(kX)) g.put(kX, conv_input_to(gy, g.saved(1), c, spatial(g.input_shape(kX), c.axes)));
  if (weight && !g.recording()) return put_weight_gradients(g, c, gy, g.saved(0), bias);
  if (weight) g.put(kWeight, conv_weight_to(gy, g.saved(0), c, g.input_shape(kWeight)));
  if (bias) g.put(kBias, sum_of_channels(gy, c.axes));
}

Shape check_conv(const OpScope& s, int axes, const ConvOptions& o, bool bias, ConvSteps& c) {
  c = steps_of(s, axes, o.stride, o.dilation, o.groups);
  check_operands(s, axes, o.groups, false, bias);
  const Shape x = shape_of(s.geometry(kX)), w = shape_of(s.geometry(kWeight));
  const Shape y =
      with_channels(x, axes, w[0], conv_sizes(s, c, spatial(x, axes), spatial(w, axes), o.padding));
  check_numel(s, y);
  return y;
}

OpInfos conv_ops() {
  static constexpr const OpInfo* kOps[] = {&info::conv1d,           &info::conv2d,
                                           &info::conv3d,           &info::conv_transpose1d,
                                           &info::conv_transpose2d, &info::conv_transpose3d,
                                           &info::conv_weight_grad};
  return kOps;
}
}  // namespace detail

}  // namespace wt
