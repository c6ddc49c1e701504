// Lab 8: convolution: direct, unfolded, implicit. page.md has the task; what is to be written says
// "Yours", the rest is given and may be changed.
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

// Element [p, pixel] of the second matrix, if the convolution is written as a product: x at the
// channel, row and column that p and pixel say, 0 where that is padding.
__device__ float unfolded(const Conv& a, int p, int pixel) {
  // Yours.
  return 0;
}

// Where pixel `pixel` of channel o lies in y.
__device__ i64 place_of(const Conv& a, int o, int pixel) {
  const int inside = a.out_rows * a.out_columns;
  return (i64(pixel / inside) * a.out_channels + o) * inside + pixel % inside;
}

// A block has kChannels channels of kPixels pixels, from channel blockIdx.y * kChannels and pixel
// blockIdx.x * kPixels on. Direct: a thread has one element of y.
constexpr int kChannels = 1, kPixels = 64, kThreads = 64;

__global__ void __launch_bounds__(kThreads) convolution(Conv a) {
  // Yours. Tiles in shared memory: WT_SHARED(float, w, [kChannels][16]); and so on.
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
