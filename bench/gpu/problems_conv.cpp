// Convolutions: the shapes of first layers, of a residual network and of the MNIST example.
#include "warptape/bench/gpu/maker.h"
#include "warptape/core/error.h"
#include "warptape/kernels/conv.h"

namespace wt::bench {
namespace {

const std::vector<DType> kFloat{DType::f32};

struct Layer {
  i64 batch, in, size, out, kernel, padding;
};
constexpr Layer kLayers[] = {{64, 3, 32, 64, 3, 1}, {64, 64, 16, 64, 3, 1},  {16, 64, 56, 64, 3, 1},
                             {64, 1, 28, 6, 5, 0},  {16, 64, 32, 128, 1, 0}, {64, 1, 28, 32, 3, 0},
                             {64, 32, 26, 64, 3, 0}};
constexpr int kShapes = 2 * int(std::size(kLayers));  // each in NCHW and in NHWC

struct Operands {
  ConvShape shape;
  bool nhwc;
  i64 out;
};
Operands operands(DType t, Scale scale, int index) {
  Layer l = kLayers[index / 2];
  if (scale == Scale::small) l.batch = 2, l.size = l.kernel + 4;
  Operands o{{}, index % 2 == 1, l.size + 2 * l.padding - l.kernel + 1};
  o.shape = {.batch = l.batch,
             .in_channels = l.in,
             .out_channels = l.out,
             .in = {1, l.size, l.size},
             .out = {1, o.out, o.out},
             .kernel = {1, l.kernel, l.kernel},
             .stride = {1, 1, 1},
             .padding = {0, l.padding, l.padding},
             .dilation = {1, 1, 1},
             .dtype = t};
  return o;
}
std::string text(const Operands& o) {
  const ConvShape& s = o.shape;
  return str(s.batch, "x", s.in_channels, "x", s.in[2], "x", s.in[2], "->", s.out_channels, " k",
             s.kernel[2], o.nhwc ? " nhwc" : " nchw");
}

ConvTensor image(const Tensor& t, i64 channels, i64 size, bool nhwc) {
  const i64 pixel = nhwc ? channels : 1;
  return {t.impl()->data, channels * size * size, nhwc ? 1 : size * size, {0, size * pixel, pixel}};
}
ConvTensor weight(const Tensor& t, const ConvShape& s) {
  const i64 k = s.kernel[2];
  return {t.impl()->data, s.in_group() * k * k, k * k, {0, k, 1}};
}
Shape x_shape(const ConvShape& s) { return {s.batch, s.in_channels, s.in[1], s.in[2]}; }
Shape y_shape(const ConvShape& s) { return {s.batch, s.out_channels, s.out[1], s.out[2]}; }
Shape w_shape(const ConvShape& s) {
  return {s.out_channels, s.in_group(), s.kernel[1], s.kernel[2]};
}

template <class Args>
Problem conv_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Operands o = operands(t, scale, shape);
  const ConvShape& s = o.shape;
  return problem_of(d, t, text(o), sets, [&](Maker& m, std::vector<Tensor>& out) {
    constexpr bool kForward = std::is_same_v<Args, ConvForwardArgs>;
    constexpr bool kInput = std::is_same_v<Args, ConvBackwardInputArgs>;
    const Tensor x = kInput ? m.out(x_shape(s), t) : m.normal(x_shape(s), t);
    const Tensor y = kForward ? m.out(y_shape(s), t) : m.normal(y_shape(s), t);
    const Tensor w = kForward || kInput ? m.normal(w_shape(s), t) : m.out(w_shape(s), t);
    out = {kForward ? y : kInput ? x : w};
    Args a;
    a.shape = s;
    a.x = image(x, s.in_channels, s.in[2], o.nhwc);
    a.y = image(y, s.out_channels, s.out[2], o.nhwc);
    a.w = weight(w, s);
    return a;
  });
}

}  // namespace

void add_conv_rows(std::vector<ProblemRow>& rows) {
  rows.push_back({"conv_forward", kFloat, kShapes, conv_problem<ConvForwardArgs>});
  rows.push_back({"conv_backward_input", kFloat, kShapes, conv_problem<ConvBackwardInputArgs>});
  rows.push_back({"conv_backward_weight", kFloat, kShapes, conv_problem<ConvBackwardWeightArgs>});
}

}  // namespace wt::bench
