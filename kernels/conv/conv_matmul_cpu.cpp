// Convolutions that are matrix products as they lie, f32 and f64. Kernels as large as the image:
// the last layer of a discriminator, the first one of a generator, a linear layer written as a
// convolution; there is one position, so that an image is a row of terms. And kernels of one pixel
// where channels lie side by side: there each pixel of each image is a row. All three contracts:
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

// Of more than one position.
bool is_pointwise(const ConvShape& s) {
  for (int d = 0; d < 3; ++d)
    if (s.kernel[d] != 1 || s.stride[d] != 1 || s.padding[d] != 0 || s.in[d] != s.out[d])
      return false;
  return s.groups == 1 && s.in[0] * s.in[1] * s.in[2] > 1;
}

// From a pixel to the next, over all images, if that is one step and at least `channels`; else 0.
i64 pixel_step(const ConvShape& s, const ConvTensor& t, i64 channels) {
  if (channels > 1 && t.channel != 1) return 0;
  i64 step = 0, pixels = 1;
  const i64 sizes[] = {s.in[2], s.in[1], s.in[0], s.batch};
  const i64 steps[] = {t.at[2], t.at[1], t.at[0], t.batch};
  for (int d = 0; d < 4; pixels *= sizes[d++]) {
    if (sizes[d] == 1) continue;
    if (step == 0) step = steps[d];
    if (steps[d] != step * pixels) return 0;
  }
  return step >= channels ? step : 0;
}

const char* pointwise_why_not(const ConvShape& s, const ConvTensor& x, const ConvTensor& y,
                              const ConvTensor& w) {
  if (s.x_numel() == 0 || s.y_numel() == 0) return "takes no empty operands";
  if (pixel_step(s, x, s.in_channels) == 0 || pixel_step(s, y, s.out_channels) == 0 ||
      (s.in_channels > 1 && w.channel != 1) || (s.out_channels > 1 && w.batch < s.in_channels))
    return "takes kernels of a pixel where channels lie side by side, at equal steps";
  return nullptr;
}

const char* why_not(const ConvShape& s, const ConvTensor& x, const ConvTensor& y,
                    const ConvTensor& w) {
  if (s.dtype != DType::f32 && s.dtype != DType::f64) return "takes f32 and f64 only";
  if (is_pointwise(s)) return pointwise_why_not(s, x, y, w);
  if (s.groups != 1 || !has_one_position(s)) return "takes kernels of an image or of a pixel only";
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

// What is a row of the product in x and in y.
struct Rows {
  i64 count, x_step, y_step;
};
Rows rows_of(const ConvShape& s, const ConvTensor& x, const ConvTensor& y) {
  if (is_pointwise(s))
    return {s.batch * s.in[0] * s.in[1] * s.in[2], pixel_step(s, x, s.in_channels),
            pixel_step(s, y, s.out_channels)};
  return {s.batch, row_step(s.batch, x.batch, terms_of(s)),
          row_step(s.batch, y.batch, s.out_channels)};
}

MatmulArgs product(const ConvForwardArgs& a) {
  const ConvShape& s = a.shape;
  const Rows rows = rows_of(s, a.x, a.y);
  MatmulArgs g;
  g.dtype = s.dtype;
  g.m = rows.count, g.n = s.out_channels, g.k = terms_of(s);
  g.out = a.y.data, g.out_row = rows.y_step;
  g.a = a.x.data, g.a_row = rows.x_step;
  g.b = a.w.data, g.b_row = 1, g.b_column = row_step(s.out_channels, a.w.batch, g.k);
  g.bias = a.bias;
  g.epilogue = a.epilogue;  // residual and aux lie as y does, and so as out
  return g;
}
// Its bias, one for every term, is still to be set.
MatmulArgs product(const ConvBackwardInputArgs& a) {
  const ConvShape& s = a.shape;
  const Rows rows = rows_of(s, a.x, a.y);
  MatmulArgs g;
  g.dtype = s.dtype;
  g.m = rows.count, g.n = terms_of(s), g.k = s.out_channels;
  g.out = a.x.data, g.out_row = rows.x_step;
  g.a = a.y.data, g.a_row = rows.y_step;
  g.b = a.w.data, g.b_row = row_step(s.out_channels, a.w.batch, g.n);
  return g;
}
MatmulArgs product(const ConvBackwardWeightArgs& a) {
  const ConvShape& s = a.shape;
  const Rows rows = rows_of(s, a.x, a.y);
  MatmulArgs g;
  g.dtype = s.dtype;
  g.m = s.out_channels, g.n = terms_of(s), g.k = rows.count;
  g.out = a.w.data, g.out_row = row_step(s.out_channels, a.w.batch, g.n);
  g.a = a.y.data, g.a_row = 1, g.a_column = rows.y_step;
  g.b = a.x.data, g.b_row = rows.x_step;
  g.accumulate = a.accumulate;
  g.row_sum = a.y_sum, g.row_sum_accumulate = a.accumulate_y_sum;
  return g;
}

// Of pixels behind the direct one's 20 where that has planes to go through, and where the product
// would go to a library that adds up in another order with another number of threads.
template <class Args>
int rank(const Args& a) {
  constexpr i64 kFewPositions = 256;
  const i64 positions = a.shape.out[0] * a.shape.out[1] * a.shape.out[2];
  if (positions == 1) return 30;
  return positions <= kFewPositions && inner_variant(product(a)).deterministic ? 30 : 15;
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

int conv_matmul_rank(const ConvForwardArgs& a) { return rank(a); }
int conv_matmul_rank(const ConvBackwardInputArgs& a) { return rank(a); }
int conv_matmul_rank(const ConvBackwardWeightArgs& a) { return rank(a); }

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
