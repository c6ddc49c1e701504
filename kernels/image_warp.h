// Rotated, moved, scaled and sheared images of a batch.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/image/warp_draws.h"

namespace wt {

inline constexpr int kWarpChannels = 4;

// images: [n, C, H, W], u8 f16 bf16 or f32, any strides; out: f32 of that shape, contiguous, other
// memory; C at most kWarpChannels. An ImageWarp (warp_draws.h) says where a pixel is taken from:
//   out = scale * (the nearest pixel, or what lies between four), fill[c] / scale outside.
// Sample i is drawn as number ids[i] (i64 [n]), i without a list. Every step is one that IEEE 754
// defines: the same bits on all devices.
struct ImageWarpArgs {
  View out{}, images{};
  const i64* ids = nullptr;
  WarpRule rule{};
  float scale = 1;
  float fill[kWarpChannels] = {};  // of the output, `scale` included
  u64 seed = 0;
  i64 epoch = 0;

  i64 count() const { return out.size(0); }
  i64 bytes() const { return out.bytes() + images.bytes() + (ids ? count() * 8 : 0); }
  i64 flops() const { return (rule.bilinear ? 11 : 1) * out.numel(); }
};
WT_CONTRACT(image_warp, ImageWarpArgs);

namespace detail {

// Null, or what is wrong with the arguments, for all variants.
inline const char* bad_image_warp(const ImageWarpArgs& a) {
  const DType from = a.images.dtype();
  if (from != DType::u8 && from != DType::f32 && from != DType::f16 && from != DType::bf16)
    return "images must be u8, f16, bf16 or f32";
  if (a.out.dtype() != DType::f32) return "the output must be f32";
  if (!a.out.dense()) return "the output must be contiguous";
  for (int k = 0; k < 4; ++k)
    if (a.out.size(k) != a.images.size(k)) return "images and output must have the same shape";
  if (a.out.size(1) > kWarpChannels) return "more than four channels";
  if (a.out.size(2) * a.out.size(3) > (i64{1} << 30) || a.out.size(2) > (1 << 20) ||
      a.out.size(3) > (1 << 20))
    return "images of more than 2^30 pixels, or 2^20 in a row";
  return nullptr;
}

// What lies between four pixels, each step rounded once.
WT_HD inline float between(float top_left, float top_right, float left, float right, float along,
                           float down) {
  const float top = float_math::fused(along, top_right - top_left, top_left),
              bottom = float_math::fused(along, right - left, left);
  return float_math::fused(down, bottom - top, top);
}

}  // namespace detail
}  // namespace wt
