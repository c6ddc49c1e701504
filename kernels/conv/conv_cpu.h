// What the cpu's fast convolutions are made of. Internal to this room.
#pragma once
#include "warptape/kernels/conv.h"
#include "warptape/kernels/cpu/packed_tile.h"

namespace wt {

const char* conv_direct_why_not(const ConvShape& s);
i64 conv_direct_forward_workspace(const ConvForwardArgs& a);
void conv_direct_forward(const ConvForwardArgs& a, const Launch& l);
i64 conv_direct_input_workspace(const ConvBackwardInputArgs& a);
void conv_direct_input(const ConvBackwardInputArgs& a, const Launch& l);
// conv/conv_thin_cpu.cpp: the transposed one to few channels.
bool conv_thin_input_takes(const ConvShape& s);
i64 conv_thin_input_workspace(const ConvBackwardInputArgs& a);
void conv_thin_input(const ConvBackwardInputArgs& a, const Launch& l);
i64 conv_direct_weight_workspace(const ConvBackwardWeightArgs& a);
void conv_direct_weight(const ConvBackwardWeightArgs& a, const Launch& l);

// p = q * stride - padding + k * dilation; false outside of x.
inline bool conv_input_position(const ConvShape& s, const i64* q, const i64* k, i64* p) {
  for (int d = 0; d < 3; ++d) {
    p[d] = q[d] * s.stride[d] - s.padding[d] + k[d] * s.dilation[d];
    if (p[d] < 0 || p[d] >= s.in[d]) return false;
  }
  return true;
}
// The q that takes p by tap k; false where there is none.
inline bool conv_output_position(const ConvShape& s, const i64* p, const i64* k, i64* q) {
  for (int d = 0; d < 3; ++d) {
    const i64 from = p[d] + s.padding[d] - k[d] * s.dilation[d];
    q[d] = from / s.stride[d];
    if (from < 0 || from % s.stride[d] != 0 || q[d] >= s.out[d]) return false;
  }
  return true;
}

// conv/conv_images_cpu.cpp: small planes, tiles of images.
const char* conv_images_why_not(const ConvForwardArgs& a);
const char* conv_images_why_not(const ConvBackwardInputArgs& a);
int conv_images_rank(const ConvForwardArgs& a);
int conv_images_rank(const ConvBackwardInputArgs& a);
i64 conv_images_workspace(const ConvForwardArgs& a);
i64 conv_images_workspace(const ConvBackwardInputArgs& a);
void conv_images_forward(const ConvForwardArgs& a, const Launch& l);
void conv_images_input(const ConvBackwardInputArgs& a, const Launch& l);

// conv/conv_turned_cpu.cpp: depthwise, in planes that are turned.
const char* conv_turned_why_not(const ConvForwardArgs& a);
const char* conv_turned_why_not(const ConvBackwardInputArgs& a);
const char* conv_turned_why_not(const ConvBackwardWeightArgs& a);
int conv_turned_rank(const ConvForwardArgs& a);
int conv_turned_rank(const ConvBackwardInputArgs& a);
int conv_turned_rank(const ConvBackwardWeightArgs& a);
i64 conv_turned_workspace(const ConvForwardArgs& a);
i64 conv_turned_workspace(const ConvBackwardInputArgs& a);
i64 conv_turned_workspace(const ConvBackwardWeightArgs& a);
void conv_turned_forward(const ConvForwardArgs& a, const Launch& l);
void conv_turned_input(const ConvBackwardInputArgs& a, const Launch& l);
void conv_turned_weight(const ConvBackwardWeightArgs& a, const Launch& l);

// conv/conv_winograd_cpu.cpp and conv/conv_winograd_weight_cpu.cpp: 3 x 3 taps at stride 1.
const char* conv_winograd_why_not(const ConvForwardArgs& a);
const char* conv_winograd_why_not(const ConvBackwardInputArgs& a);
const char* conv_winograd_why_not(const ConvBackwardWeightArgs& a);
int conv_winograd_rank(const ConvForwardArgs& a);
int conv_winograd_rank(const ConvBackwardInputArgs& a);
int conv_winograd_rank(const ConvBackwardWeightArgs& a);
i64 conv_winograd_workspace(const ConvForwardArgs& a);
i64 conv_winograd_workspace(const ConvBackwardInputArgs& a);
i64 conv_winograd_workspace(const ConvBackwardWeightArgs& a);
void conv_winograd_forward(const ConvForwardArgs& a, const Launch& l);
void conv_winograd_input(const ConvBackwardInputArgs& a, const Launch& l);
void conv_winograd_weight(const ConvBackwardWeightArgs& a, const Launch& l);

// conv/conv_weight_packed_cpu.cpp: many channels, parts of the batch in panels.
const char* conv_packed_weight_why_not(const ConvBackwardWeightArgs& a);
int conv_packed_weight_rank(const ConvBackwardWeightArgs& a);
i64 conv_packed_weight_workspace(const ConvBackwardWeightArgs& a);
void conv_packed_weight(const ConvBackwardWeightArgs& a, const Launch& l);

// conv/conv_matmul_cpu.cpp: kernels as large as the image, of which there is one position, and of
// one pixel.
const char* conv_matmul_why_not(const ConvForwardArgs& a);
const char* conv_matmul_why_not(const ConvBackwardInputArgs& a);
const char* conv_matmul_why_not(const ConvBackwardWeightArgs& a);
int conv_matmul_rank(const ConvForwardArgs& a);
int conv_matmul_rank(const ConvBackwardInputArgs& a);
int conv_matmul_rank(const ConvBackwardWeightArgs& a);
i64 conv_matmul_workspace(const ConvForwardArgs& a);
i64 conv_matmul_workspace(const ConvBackwardInputArgs& a);
i64 conv_matmul_workspace(const ConvBackwardWeightArgs& a);
void conv_matmul_forward(const ConvForwardArgs& a, const Launch& l);
void conv_matmul_input(const ConvBackwardInputArgs& a, const Launch& l);
void conv_matmul_weight(const ConvBackwardWeightArgs& a, const Launch& l);

// conv/conv_widened_cpu.cpp: f16 and bf16 by way of f32 copies.
const char* conv_widened_why_not(const ConvShape& s);
i64 conv_widened_workspace(const ConvForwardArgs& a);
i64 conv_widened_workspace(const ConvBackwardInputArgs& a);
i64 conv_widened_workspace(const ConvBackwardWeightArgs& a);
void conv_widened_forward(const ConvForwardArgs& a, const Launch& l);
void conv_widened_input(const ConvBackwardInputArgs& a, const Launch& l);
void conv_widened_weight(const ConvBackwardWeightArgs& a, const Launch& l);

// --- the vector kernels: conv/conv_vector_cpu.cpp, once for each instruction set ---

// Some pixels, `x_row` apart, by the output channels of one panel. The terms of a pixel lie in
// `segments` runs of `length`, each at an offset from the pixel; the panel has a row of weights,
// two vectors wide, for every term.
template <class T>
struct ConvChannelTile {
  const T* x;
  i64 x_row;
  const i64* offsets;
  int segments;
  i64 length;
  const T* panel;
  const T* bias;  // of the columns, or null
  T* out;
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
template <class T>
struct ConvPixelTile {
  const T* w;
  const T* x;
  const i64* offsets;
  i64 depth;
  const T* bias;  // of the rows, or null
  T* out;
  i64 out_row;
  const ConvLanes* lanes;  // one a vector
};

// One input channel for each output channel, channels side by side: terms are taps.
template <class T>
struct ConvDepthwiseRow {
  const T* x;
  i64 x_row;  // from a pixel to the next
  const i64* offsets;
  i64 taps, pixels, channels;
  const T* w;     // [taps][channels]
  const T* bias;  // or null
  T* out;
  i64 out_row;
};
// to[tap][c] += sum over pixels of y[pixel][c] * x[pixel at the tap][c], and below the last tap
// the sums of y.
template <class T>
struct ConvDepthwiseWeight {
  const T* x;
  i64 x_row;
  const i64* offsets;
  i64 taps, pixels, channels;
  const T* y;
  i64 y_row;
  T* to;  // [taps + 1][channels]
};
// The sum of y[row][i] * x[row][i] over rows of `length`.
template <class T>
struct ConvDot {
  const T *x, *y;
  i64 x_row, y_row, rows, length;
};

// The weights between some output channels and some terms: each has a vector of sums, to which the
// products along the pixels are added.
template <class T>
struct ConvGradientTile {
  const T* y;
  i64 y_row;
  const T* x;  // of the terms
  i64 x_row;
  i64 pixels;
  T* sums;
  i64 sums_row;  // from a channel to the next
};
constexpr int kMostGradientRows = 6, kGradientTerms = 4;

template <class T>
struct ConvKernels {
  int rows, lanes;                                                   // of a tile; of a vector
  void (*channels[2][kMaxTileRows + 1])(const ConvChannelTile<T>&);  // by vectors - 1, rows
  void (*pixels[2][kMaxTileRows + 1])(const ConvPixelTile<T>&);
  // Rows of `length`, each of which may be followed by up to a vector of anything.
  void (*copy_rows)(T* to, i64 to_row, const T* from, i64 from_row, i64 rows, i64 length);
  void (*depthwise)(const ConvDepthwiseRow<T>&);
  void (*depthwise_weight)(const ConvDepthwiseWeight<T>&);
  T (*dot)(const ConvDot<T>&);
  int gradient_rows;  // of a tile, at most
  void (*gradient[kMostGradientRows + 1][kGradientTerms + 1])(const ConvGradientTile<T>&);
  // to[c * to_row + i] = from[i * from_row + c]
  void (*planes_of)(T* to, i64 to_row, const T* from, i64 from_row, i64 pixels, i64 channels);
  T (*sum_of)(const T* lanes);
  // to[i] = bias + the sum over k of taps[k][i]; up to a vector behind a tap's last is read.
  void (*sum_taps)(T* to, const T* const* taps, i64 count, i64 length, T bias);
};
template <class T>
const ConvKernels<T>& conv_kernels();  // for the instruction set in use

}  // namespace wt
