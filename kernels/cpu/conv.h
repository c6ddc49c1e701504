// What the cpu's `direct` convolution is made of. Internal to kernels/conv.cpp and kernels/cpu/.
#pragma once
#include "warptape/kernels/conv.h"
#include "warptape/kernels/cpu/matmul.h"

namespace wt {

const char* conv_direct_why_not(const ConvShape& s);
i64 conv_direct_forward_workspace(const ConvForwardArgs& a);
void conv_direct_forward(const ConvForwardArgs& a, const Launch& l);
i64 conv_direct_input_workspace(const ConvBackwardInputArgs& a);
void conv_direct_input(const ConvBackwardInputArgs& a, const Launch& l);
// cpu/conv_thin.cpp: the transposed one to few channels.
bool conv_thin_input_takes(const ConvShape& s);
i64 conv_thin_input_workspace(const ConvBackwardInputArgs& a);
void conv_thin_input(const ConvBackwardInputArgs& a, const Launch& l);
i64 conv_direct_weight_workspace(const ConvBackwardWeightArgs& a);
void conv_direct_weight(const ConvBackwardWeightArgs& a, const Launch& l);

// --- the vector kernels: cpu/conv_vector.cpp, once for each instruction set ---

// Some pixels, `x_row` apart, by the output channels of one panel. The terms of a pixel lie in
// `segments` runs of `length`, each at an offset from the pixel; the panel has a row of weights,
// two vectors wide, for every term.
struct ConvChannelTile {
  const float* x;
  i64 x_row;
  const i64* offsets;
  int segments;
  i64 length;
  const float* panel;
  const float* bias;  // of the columns, or null
  float* out;
  i64 out_row;
  int columns;
};

// The lanes of a vector that are results, in order; the others are between two rows of the image.
constexpr int kConvLanes = 16;
struct ConvLanes {
  i64 start;  // of the first one in the output
  i32 count;
  i32 lane[kConvLanes];
};

// Some output channels by one or two vectors of neighbouring pixels, term by term: the weights are
// [depth][rows], a term's pixels lie at an offset from x.
struct ConvPixelTile {
  const float* w;
  const float* x;
  const i64* offsets;
  i64 depth;
  const float* bias;  // of the rows, or null
  float* out;
  i64 out_row;
  const ConvLanes* lanes;  // one a vector
};

// One input channel for each output channel, channels side by side: terms are taps.
struct ConvDepthwiseRow {
  const float* x;
  i64 x_row;  // from a pixel to the next
  const i64* offsets;
  i64 taps, pixels, channels;
  const float* w;     // [taps][channels]
  const float* bias;  // or null
  float* out;
  i64 out_row;
};
// to[tap][c] += sum over pixels of y[pixel][c] * x[pixel at the tap][c], and below the last tap
// the sums of y.
struct ConvDepthwiseWeight {
  const float* x;
  i64 x_row;
  const i64* offsets;
  i64 taps, pixels, channels;
  const float* y;
  i64 y_row;
  float* to;  // [taps + 1][channels]
};
// The sum of y[row][i] * x[row][i] over rows of `length`.
struct ConvDot {
  const float *x, *y;
  i64 x_row, y_row, rows, length;
};

// The weights between some output channels and some terms: each has a vector of sums, to which the
// products along the pixels are added.
struct ConvGradientTile {
  const float* y;
  i64 y_row;
  const float* x;  // of the terms
  i64 x_row;
  i64 pixels;
  float* sums;
  i64 sums_row;  // from a channel to the next
};
constexpr int kMostGradientRows = 6, kGradientTerms = 4;

struct ConvKernels {
  int rows, lanes;                                                // of a tile; floats of a vector
  void (*channels[2][kMaxTileRows + 1])(const ConvChannelTile&);  // by vectors - 1, rows
  void (*pixels[2][kMaxTileRows + 1])(const ConvPixelTile&);
  // Rows of `length`, each of which may be followed by up to a vector of anything.
  void (*copy_rows)(float* to, i64 to_row, const float* from, i64 from_row, i64 rows, i64 length);
  void (*depthwise)(const ConvDepthwiseRow&);
  void (*depthwise_weight)(const ConvDepthwiseWeight&);
  float (*dot)(const ConvDot&);
  int gradient_rows;  // of a tile, at most
  void (*gradient[kMostGradientRows + 1][kGradientTerms + 1])(const ConvGradientTile&);
  // to[c * to_row + i] = from[i * from_row + c]
  void (*planes_of)(float* to, i64 to_row, const float* from, i64 from_row, i64 pixels,
                    i64 channels);
  float (*sum_of)(const float* lanes);
  // to[i] = bias + the sum over k of taps[k][i]; up to a vector behind a tap's last is read.
  void (*sum_taps)(float* to, const float* const* taps, i64 count, i64 length, float bias);
};
const ConvKernels& conv_kernels();  // for the instruction set in use

}  // namespace wt
