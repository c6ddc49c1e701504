// Random erasing: a rectangle of each image of a batch becomes a value or noise.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/image/erase_draws.h"
#include "warptape/kernels/image/image_layout.h"

namespace wt {

inline constexpr int kEraseChannels = 4;

// images: [n, C, H, W], f32 f16 or bf16, contiguous or channels_last, written in place where the
// box of a sample (erase_draws.h) lies: value[c], or with rule.noise normal numbers; the rest is
// not touched. Sample i is drawn as number ids[i] (i64 [n]), i without a list. C is at most
// kEraseChannels.
struct ImageEraseArgs {
  View images{};
  const i64* ids = nullptr;
  EraseRule rule{};
  float value[kEraseChannels] = {};
  u64 seed = 0;
  i64 epoch = 0;

  i64 count() const { return images.size(0); }
  // What is erased on average.
  i64 bytes() const {
    return i64(double(images.bytes()) * double(rule.p) *
               (double(rule.area_least) + double(rule.area_most)) / 2) +
           (ids ? count() * 8 : 0);
  }
  i64 flops() const { return 0; }
};
WT_CONTRACT(image_erase, ImageEraseArgs);

namespace detail {

// Null, or what is wrong with the arguments, for all variants.
inline const char* bad_image_erase(const ImageEraseArgs& a) {
  const View& v = a.images;
  if (v.dtype() != DType::f32 && v.dtype() != DType::f16 && v.dtype() != DType::bf16)
    return "images must be f32, f16 or bf16";
  if (v.size(1) > kEraseChannels) return "more than four channels";
  if (image_layout(v) == ImageLayout::other) return "images must be contiguous or channels_last";
  if (v.size(2) * v.size(3) > (i64{1} << 30)) return "images of more than 2^30 pixels";
  return nullptr;
}

}  // namespace detail
}  // namespace wt
