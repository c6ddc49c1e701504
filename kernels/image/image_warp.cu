// Warped images on simt and cuda: a thread a pixel, all channels.
#include "warptape/kernels/image_warp.h"

#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;

struct Warp {
  WarpRule rule;
  float* out = nullptr;
  const void* images = nullptr;
  const i64* ids = nullptr;
  u64 seed = 0;
  i64 epoch = 0;
  i64 image_stride = 0, channel_stride = 0, row_stride = 0, column_stride = 0;  // of the images
  i64 tiles = 0;                                                                // blocks a sample
  i64 blocks = 0;
  i32 height = 0, width = 0, channels = 0;
  float scale = 1, fill[kWarpChannels] = {};

  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(images), f(ids);
  }
};

// Of one channel: where pixel (y, x) would lie, and outside the fill.
template <class T>
struct Plane {
  const T* image;
  const Warp& a;
  float fill;
  __device__ __forceinline__ float at(i32 y, i32 x) const {
    if (y < 0 || x < 0 || y >= a.height || x >= a.width) return fill;
    return __fmul_rn(a.scale, float(image[y * a.row_stride + x * a.column_stride]));
  }
};

template <class T, bool Bilinear>
__global__ void __launch_bounds__(kThreads, 7) image_warp_kernel(Warp a) {
  WT_SHARED(ImageWarp, drawn, [1]);
  for (i64 block = blockIdx.x; block < a.blocks; block += gridDim.x) {
    const i64 sample = block / a.tiles, tile = block - sample * a.tiles;
    // A matrix is some hundred steps in double: one thread's, not every one's.
    if (threadIdx.x == 0)
      drawn[0] =
          draw_warp(a.rule, a.seed, a.epoch, a.ids ? a.ids[sample] : sample, a.width, a.height);
    __syncthreads();
    const ImageWarp warp = drawn[0];
    __syncthreads();  // before the next sample takes its place
    const i64 pixels = i64(a.height) * a.width, at = tile * kThreads + threadIdx.x;
    if (at >= pixels) continue;
    const i32 y = i32(u32(at) / u32(a.width)), x = i32(at) - y * a.width;
    const WarpPlace p = warp_place(warp, Bilinear, x, y, a.width, a.height);
    const T* const image = static_cast<const T*>(a.images) + sample * a.image_stride;
    float* const out = a.out + sample * a.channels * pixels + at;
#pragma unroll
    for (int c = 0; c < kWarpChannels; ++c) {
      if (c >= a.channels) break;
      const Plane<T> plane{image + c * a.channel_stride, a, a.fill[c]};
      float value = a.fill[c];
      // Neighbouring lanes take neighbouring pixels of a slanted line: a few sectors a warp, which
      // the next line finds in the first-level cache.
      if (p.near)
        value = Bilinear ? detail::between(plane.at(p.y, p.x), plane.at(p.y, p.x + 1),
                                           plane.at(p.y + 1, p.x), plane.at(p.y + 1, p.x + 1),
                                           p.along, p.down)
                         : plane.at(p.y, p.x);
      out[c * pixels] = value;
    }
  }
}

template <class T>
void launch_warp(const ImageWarpArgs& b, const Launch& l) {
  const View& in = b.images;
  Warp a{b.rule};
  a.out = b.out.as<float>(), a.images = in.data, a.ids = b.ids, a.seed = b.seed, a.epoch = b.epoch;
  a.image_stride = in.stride(0), a.channel_stride = in.stride(1);
  a.row_stride = in.stride(2), a.column_stride = in.stride(3);
  a.channels = i32(in.size(1)), a.height = i32(in.size(2)), a.width = i32(in.size(3));
  a.scale = b.scale;
  for (int c = 0; c < kWarpChannels; ++c) a.fill[c] = b.fill[c];
  a.tiles = ceil_div(i64(a.height) * a.width, kThreads);
  a.blocks = a.channels ? b.count() * a.tiles : 0;
  if (a.blocks == 0) return;
  const Config grid = grid_of(l, a.blocks, kThreads);
  b.rule.bilinear ? launch<image_warp_kernel<T, true>>(grid, a)
                  : launch<image_warp_kernel<T, false>>(grid, a);
}

void launch_pixels(const ImageWarpArgs& a, const Launch& l) {
  switch (a.images.dtype()) {
    case DType::u8:
      return launch_warp<u8>(a, l);
    case DType::f16:
      return launch_warp<__half>(a, l);
    case DType::bf16:
      return launch_warp<__nv_bfloat16>(a, l);
    default:
      return launch_warp<float>(a, l);
  }
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, image_warp, ImageWarpArgs,
            {.name = "pixels", .why_not = detail::bad_image_warp, .launch = launch_pixels});

}  // namespace wt
