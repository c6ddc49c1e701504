// Convolution as a product of matrices, of which one is never written.
#include "warptape/kernels/simt/simt.h"
//
#include "warptape/kernels/conv.h"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// y[n, o, r, q] = bias[o] + sum over c, i, j of
//     x[n, c, r * stride - padding + i, q * stride - padding + j] * w[o, c, i, j],
// where that place lies inside x. All are C order.
struct Conv {
  float* y;
  const float *x, *w, *bias;                     // bias may be null
  int images, channels, rows, columns;           // of x
  int out_channels, out_rows, out_columns;       // of y
  int side_rows, side_columns, stride, padding;  // of the kernel
  template <class F>
  void visit_pointers(F&& f) const {
    f(y), f(x), f(w), f(bias);
  }
  // The convolution as a product of matrices: [out_channels, terms] [terms, pixels].
  __host__ __device__ int terms() const { return channels * side_rows * side_columns; }
  __host__ __device__ int pixels() const { return images * out_rows * out_columns; }
};

// Element [p, pixel] of the second matrix: x at channel, row and column that p and pixel say, 0
// where that is padding.
__device__ float unfolded(const Conv& a, int p, int pixel) {
  const int c = p / (a.side_rows * a.side_columns), i = p / a.side_columns % a.side_rows,
            j = p % a.side_columns;
  const int n = pixel / (a.out_rows * a.out_columns), r = pixel / a.out_columns % a.out_rows,
            q = pixel % a.out_columns;
  const int row = r * a.stride - a.padding + i, column = q * a.stride - a.padding + j;
  if (row < 0 || row >= a.rows || column < 0 || column >= a.columns) return 0;
  return a.x[((i64(n) * a.channels + c) * a.rows + row) * a.columns + column];
}

// Where pixel `pixel` of channel o lies in y.
__device__ i64 place_of(const Conv& a, int o, int pixel) {
  const int inside = a.out_rows * a.out_columns;
  return (i64(pixel / inside) * a.out_channels + o) * inside + pixel % inside;
}

// A block has 32 channels of 64 pixels, a thread 2 x 4 of them.
constexpr int kChannels = 32, kPixels = 64, kDepth = 16, kThreads = 256, kSide = 16;

// Implicit GEMM: the unfolded matrix is made a tile at a time, in shared memory, and nowhere else.
__global__ void __launch_bounds__(kThreads) convolution(Conv a) {
  // A row more, so that the two rows which a warp reads at once lie in other banks.
  WT_SHARED(float, w, [kChannels][kDepth + 1]);
  WT_SHARED(float, x, [kDepth][kPixels]);
  const int t = int(threadIdx.x), tx = t % kSide, ty = t / kSide, terms = a.terms();
  const int o0 = int(blockIdx.y) * kChannels, pixel0 = int(blockIdx.x) * kPixels;
  float sum[2][4] = {};
  for (int p0 = 0; p0 < terms; p0 += kDepth) {
    for (int e = t; e < kChannels * kDepth; e += kThreads) {
      const int o = o0 + e / kDepth, p = p0 + e % kDepth;
      w[e / kDepth][e % kDepth] = o < a.out_channels && p < terms ? a.w[i64(o) * terms + p] : 0.0f;
    }
    // Neighbouring lanes have neighbouring pixels, which lie side by side in x, too.
    for (int e = t; e < kDepth * kPixels; e += kThreads) {
      const int p = p0 + e / kPixels, pixel = pixel0 + e % kPixels;
      x[e / kPixels][e % kPixels] = p < terms && pixel < a.pixels() ? unfolded(a, p, pixel) : 0.0f;
    }
    __syncthreads();  // the tiles are written
    for (int p = 0; p < kDepth; ++p)
      for (int r = 0; r < 2; ++r)
        for (int c = 0; c < 4; ++c) sum[r][c] += w[ty * 2 + r][p] * x[p][tx + kSide * c];
    __syncthreads();  // the tiles are read: they may be written again
  }
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 4; ++c) {
      const int o = o0 + ty * 2 + r, pixel = pixel0 + tx + kSide * c;
      if (o < a.out_channels && pixel < a.pixels())
        a.y[place_of(a, o, pixel)] = sum[r][c] + (a.bias ? a.bias[o] : 0);
    }
}

Conv conv_of(const ConvForwardArgs& a) {
  const ConvShape& s = a.shape;
  return {static_cast<float*>(a.y.data),
          static_cast<const float*>(a.x.data),
          static_cast<const float*>(a.w.data),
          static_cast<const float*>(a.bias),
          int(s.batch),
          int(s.in_channels),
          int(s.in[1]),
          int(s.in[2]),
          int(s.out_channels),
          int(s.out[1]),
          int(s.out[2]),
          int(s.kernel[1]),
          int(s.kernel[2]),
          int(s.stride[1]),
          int(s.padding[1])};
}
void convolve(const ConvForwardArgs& a, const Launch& l) {
  const Conv c = conv_of(a);
  Config grid = grid_of(l, ceil_div(c.pixels(), kPixels), kThreads);
  grid.grid.y = unsigned(ceil_div(c.out_channels, kChannels));
  launch<convolution>(grid, c);
}
bool in_order(const ConvTensor& t, i64 channels, i64 rows, i64 columns) {
  return t.batch == channels * rows * columns && t.channel == rows * columns &&
         t.at[1] == columns && t.at[2] == 1;
}
const char* why_not(const ConvForwardArgs& a) {
  const ConvShape& s = a.shape;
  if (s.dtype != DType::f32 || a.epilogue) return "other dtypes than f32, or an epilogue";
  if (s.groups != 1 || s.in[0] != 1 || s.kernel[0] != 1) return "groups, or three axes";
  if (s.dilation[1] != 1 || s.dilation[2] != 1 || s.stride[1] != s.stride[2] ||
      s.padding[1] != s.padding[2])
    return "dilation, or a stride and padding of each axis";
  if (s.x_numel() >= 1 << 30 || s.y_numel() >= 1 << 30) return "tensors of 2^30 elements";
  const bool plain = in_order(a.x, s.in_channels, s.in[1], s.in[2]) &&
                     in_order(a.y, s.out_channels, s.out[1], s.out[2]) &&
                     in_order(a.w, s.in_channels, s.kernel[1], s.kernel[2]);
  return plain ? nullptr : "tensors that are not contiguous";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, conv_forward, ConvForwardArgs,
            {.name = "mine", .why_not = why_not, .launch = convolve});

}  // namespace wt
