// What the kernels of convolution share.
#pragma once
#include "warptape/kernels/conv.h"
#include "warptape/kernels/device/cudnn_functions.h"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/device/strided_index.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kConvThreads = 128;

// ConvTensor with its elements' type, and strides in integers I.
template <class T, class I>
struct ConvPlanes {
  T* data;
  I batch, channel, at[3];
  explicit ConvPlanes(const ConvTensor& t)
      : data(static_cast<T*>(t.data)),
        batch(I(t.batch)),
        channel(I(t.channel)),
        at{I(t.at[0]), I(t.at[1]), I(t.at[2])} {}
};

// ConvShape in 32 bits: half of the registers, and divisions of a tenth of the time.
struct ConvShape32 {
  i32 batch, in_group, out_group, groups;
  i32 in[3], out[3], kernel[3];
  i32 stride[3], padding[3], dilation[3];
  explicit ConvShape32(const ConvShape& s)
      : batch(i32(s.batch)),
        in_group(i32(s.in_group())),
        out_group(i32(s.out_group())),
        groups(i32(s.groups)) {
    for (int d = 0; d < 3; ++d) {
      in[d] = i32(s.in[d]), out[d] = i32(s.out[d]), kernel[d] = i32(s.kernel[d]);
      stride[d] = i32(s.stride[d]), padding[d] = i32(s.padding[d]),
      dilation[d] = i32(s.dilation[d]);
    }
  }
};

// The output that takes input position p by tap k along an axis, or -1.
template <class Shape, class I>
__device__ __forceinline__ I output_of(const Shape& s, int axis, I p, I k) {
  const I from = p + s.padding[axis] - k * s.dilation[axis];
  if (s.stride[axis] == 1) return from >= 0 && from < s.out[axis] ? from : -1;
  const I q = from / s.stride[axis];
  return from >= 0 && q * s.stride[axis] == from && q < s.out[axis] ? q : -1;
}

// Null: every size, stride and position of the call fits into 31 bits.
inline const char* why_not_32_bits(const ConvShape& s, const ConvTensor& x, const ConvTensor& y,
                                   const ConvTensor& w) {
  constexpr i64 kLimit = i64(1) << 31;
  if (s.dtype == DType::f64) return "f64 has the naive rung only";
  const auto reach = [](const ConvTensor& t, i64 batch, i64 channels, const i64(&size)[3]) {
    const auto far = [](i64 n, i64 stride) { return (n - 1) * (stride < 0 ? -stride : stride); };
    return far(batch, t.batch) + far(channels, t.channel) + far(size[0], t.at[0]) +
           far(size[1], t.at[1]) + far(size[2], t.at[2]);
  };
  if (s.x_numel() >= kLimit || s.y_numel() >= kLimit || s.w_numel() >= kLimit ||
      reach(x, s.batch, s.in_channels, s.in) >= kLimit ||
      reach(y, s.batch, s.out_channels, s.out) >= kLimit ||
      reach(w, s.out_channels, s.in_group(), s.kernel) >= kLimit)
    return "tensors of 2^31 elements have the naive rung only";
  for (int d = 0; d < 3; ++d)
    if (s.in[d] + 2 * s.padding[d] + s.kernel[d] * s.dilation[d] >= kLimit / 2 ||
        s.stride[d] >= kLimit / 2)
      return "positions beyond 2^30 have the naive rung only";
  return nullptr;
}

}  // namespace
}  // namespace WT_DEVICE_NS

}  // namespace wt
