// Convolutions whose kernel is as large as the image, f32 and f64: the last layer of a
// discriminator, the first one of a generator, a linear layer written as a convolution. There is
// one position, so that an image is a row of terms and all three contracts are matrix products:
//
//   y[n, o] = sum over t of x[n, t] w[o, t]    x = y w    w = y^T x    with t = (c, k)
#include <algorithm>

#include "warptape/kernels/conv/conv_cpu.h"
#include "warptape/kernels/dispatch/run_inner.h"

namespace wt {

namespace {

i64 terms_of(const ConvShape& s) { return s.in_channels * s.kernel[0] * s.kernel[1] * s.kernel[2]; }

bool has_one_position(const ConvShape& s) {
  for (int d = 0; d < 3; ++d)
    if (s.out[d] != 1 || s.padding[d] != 0 || s.in[d] != s.kernel[d] ||
        (s.dilation[d] != 1 && s.kernel[d] != 1))
      return false;
  return true;
}

// Channels and taps of a row follow each other without gaps, the channels innermost or outermost.
bool is_row(const ConvTensor& t, const ConvShape& s, bool channels_inside) {
  i64 step = channels_inside ? s.in_channels : 1;
  for (int d = 3; d-- > 0; step *= s.kernel[d])
    if (s.kernel[d] > 1 && t.at[d] != step) return false;
  return s.in_channels == 1 || t.channel == (channels_inside ? 1 : step);
}

const char* why_not(const ConvShape& s, const ConvTensor& x, const ConvTensor& y,
                    const ConvTensor& w) {
  if (s.dtype != DType::f32 && s.dtype != DType::f64) return "takes f32 and f64 only";
  if (s.groups != 1 || !has_one_position(s)) return "takes kernels as large as the image only";
  const i64 terms = terms_of(s);
  if (s.batch == 0 || s.out_channels == 0 || terms == 0) return "takes no empty operands";
  const bool inside = s.in_channels > 1 && x.channel == 1;
  if (!is_row(x, s, inside) || !is_row(w, s, inside))
    return "the channels and taps of x and w must follow each other in the same order";
  if ((s.out_channels > 1 && y.channel != 1) || (s.batch > 1 && y.batch < s.out_channels) ||
      (s.batch > 1 && x.batch < terms) || (s.out_channels > 1 && w.batch < terms))
    return "the elements of a row must be neighbours";
  return nullptr;
}

// From a row to the next; of a single one any will do that is long enough.
i64 row_step(i64 rows, i64 step, i64 length) { return rows > 1 ? step : length; }

MatmulArgs product(const ConvForwardArgs& a) {
  const ConvShape& s = a.shape;
  MatmulArgs g;
  g.dtype = s.dtype;
  g.m = s.batch, g.n = s.out_channels, g.k = terms_of(s);
  g.out = a.y.data, g.out_row = row_step(s.batch, a.y.batch, g.n);
  g.a = a.x.data, g.a_row = row_step(s.batch, a.x.batch, g.k);
  g.b = a.w.data, g.b_row = 1, g.b_column = row_step(s.out_channels, a.w.batch, g.k);
  g.bias = a.bias;
  g.epilogue = a.epilogue;  // residual and aux lie as y does, and so as out
  return g;
}
// Its bias, one for every term, is still to be set.
MatmulArgs product(const ConvBackwardInputArgs& a) {
  const ConvShape& s = a.shape;
  MatmulArgs g;
  g.dtype = s.dtype;
  g.m = s.batch, g.n = terms_of(s), g.k = s.out_channels;
  g.out = a.x.data, g.out_row = row_step(s.batch, a.x.batch, g.n);
  g.a = a.y.data, g.a_row = row_step(s.batch, a.y.batch, g.k);
  g.b = a.w.data, g.b_row = row_step(s.out_channels, a.w.batch, g.n);
  return g;
}
MatmulArgs product(const ConvBackwardWeightArgs& a) {
  const ConvShape& s = a.shape;
  MatmulArgs g;
  g.dtype = s.dtype;
  g.m = s.out_channels, g.n = terms_of(s), g.k = s.batch;
  g.out = a.w.data, g.out_row = row_step(s.out_channels, a.w.batch, g.n);
  g.a = a.y.data, g.a_row = 1, g.a_column = row_step(s.batch, a.y.batch, g.m);
  g.b = a.x.data, g.b_row = row_step(s.batch, a.x.batch, g.n);
  g.accumulate = a.accumulate;
  g.row_sum = a.y_sum, g.row_sum_accumulate = a.accumulate_y_sum;
  return g;
}

i64 bias_bytes(const ConvBackwardInputArgs& a) {
  return a.bias ? (terms_of(a.shape) * item_size(a.shape.dtype) + 63) / 64 * 64 : 0;
}
// A channel's bias for each of its taps.
template <class T>
void spread_bias(const ConvBackwardInputArgs& a, T* to) {
  const T* const bias = static_cast<const T*>(a.bias);
  const i64 terms = terms_of(a.shape), channels = a.shape.in_channels;
  const bool inside = channels > 1 && a.x.channel == 1;
  for (i64 i = 0; i < terms; ++i) to[i] = bias[inside ? i % channels : i / (terms / channels)];
}

}  // namespace

const char* conv_matmul_why_not(const ConvForwardArgs& a) {
  return why_not(a.shape, a.x, a.y, a.w);
}
const char* conv_matmul_why_not(const ConvBackwardInputArgs& a) {
  return why_not(a.shape, a.x, a.y, a.w);
}
const char* conv_matmul_why_not(const ConvBackwardWeightArgs& a) {
  return why_not(a.shape, a.x, a.y, a.w);
}

i64 conv_matmul_workspace(const ConvForwardArgs& a) { return inner_workspace(product(a)); }
i64 conv_matmul_workspace(const ConvBackwardInputArgs& a) {
  return bias_bytes(a) + inner_workspace(product(a));
}
i64 conv_matmul_workspace(const ConvBackwardWeightArgs& a) { return inner_workspace(product(a)); }

void conv_matmul_forward(const ConvForwardArgs& a, const Launch& l) {
  inner_run(product(a), l, l.workspace);
}
void conv_matmul_input(const ConvBackwardInputArgs& a, const Launch& l) {
  MatmulArgs g = product(a);
  if (a.bias) {
    a.shape.dtype == DType::f32 ? spread_bias(a, static_cast<float*>(l.workspace))
                                : spread_bias(a, static_cast<double*>(l.workspace));
    g.bias = l.workspace;
  }
  inner_run(g, l, static_cast<char*>(l.workspace) + bias_bytes(a));
}
void conv_matmul_weight(const ConvBackwardWeightArgs& a, const Launch& l) {
  inner_run(product(a), l, l.workspace);
}

}  // namespace wt
