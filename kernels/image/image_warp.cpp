// Warped images on the cpu, by samples.
#include "warptape/kernels/image_warp.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/image/image_warp_cpu.h"

namespace wt {
namespace {

template <class T>
void warp_sample(const ImageWarpArgs& a, i64 sample) {
  const i64 channels = a.out.size(1);
  const i32 h = i32(a.out.size(2)), w = i32(a.out.size(3));
  const ImageWarp warp = draw_warp(a.rule, a.seed, a.epoch, a.ids ? a.ids[sample] : sample, w, h);
  const T* const image = a.images.as<const T>() + sample * a.images.stride(0);
  float* const out = a.out.as<float>() + sample * channels * h * w;
  for (i32 y = 0; y < h; ++y)
    for (i32 x = 0; x < w; ++x) {
      const WarpPlace p = warp_place(warp, a.rule.bilinear, x, y, w, h);
      for (i64 c = 0; c < channels; ++c) {
        const auto pixel = [&](i32 py, i32 px) {
          if (!p.near || py < 0 || px < 0 || py >= h || px >= w) return a.fill[c];
          return a.scale * float(image[c * a.images.stride(1) + py * a.images.stride(2) +
                                       px * a.images.stride(3)]);
        };
        const float value =
            a.rule.bilinear
                ? detail::between(pixel(p.y, p.x), pixel(p.y, p.x + 1), pixel(p.y + 1, p.x),
                                  pixel(p.y + 1, p.x + 1), p.along, p.down)
                : pixel(p.y, p.x);
        out[(c * h + y) * w + x] = value;
      }
    }
}

void image_warp_reference(const ImageWarpArgs& a, const Launch&) {
  image_warp_samples(a, 0, a.count());
}

}  // namespace

void image_warp_samples(const ImageWarpArgs& a, i64 begin, i64 end) {
  if (a.out.numel() == 0) return;
  const auto warp = [&]<class T>() {
    for (i64 i = begin; i < end; ++i) warp_sample<T>(a, i);
  };
  if (a.images.dtype() == DType::u8) return warp.template operator()<u8>();
  dispatch_floating(a.images.dtype(), warp);
}

WT_VARIANTS(
    cpu, image_warp, ImageWarpArgs,
    {.name = "rows", .rank = 10, .why_not = detail::bad_image_warp, .launch = image_warp_rows},
    {.name = "reference", .why_not = detail::bad_image_warp, .launch = image_warp_reference});

}  // namespace wt
