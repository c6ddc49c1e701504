// Random erasing on simt and cuda: a block a sample, which writes its box.
#include "warptape/kernels/image_erase.h"

#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

struct ImageErase {
  EraseRule rule;
  void* images = nullptr;
  const i64* ids = nullptr;
  u64 seed = 0;
  i64 epoch = 0, count = 0;
  i64 each = 0, channel = 0, pixel = 0;  // strides
  i32 rows = 0, columns = 0, channels = 0;
  float value[kEraseChannels] = {};

  template <class F>
  void visit_pointers(F&& f) const {
    f(images), f(ids);
  }
};

struct Erased {
  ErasedBox box;
  PhiloxKey noise;
};

template <class T, bool Noise>
__global__ void __launch_bounds__(kThreads, 4) image_erase_kernel(ImageErase a) {
  WT_SHARED(Erased, drawn, [1]);
  for (i64 sample = blockIdx.x; sample < a.count; sample += gridDim.x) {
    if (threadIdx.x == 0) {
      const i64 id = a.ids ? a.ids[sample] : sample;
      drawn[0].box = draw_erased_box(a.rule, a.seed, a.epoch, id, a.rows, a.columns);
      if constexpr (Noise) drawn[0].noise = erase_noise_key(a.seed, a.epoch, id);
    }
    __syncthreads();
    const Erased e = drawn[0];
    __syncthreads();  // before the next sample takes its place
    const i32 width = e.box.right - e.box.left;
    const u32 pixels = u32(e.box.bottom - e.box.top) * u32(width);
    T* const image = static_cast<T*>(a.images) + sample * a.each;
    for (u32 k = threadIdx.x; k < pixels; k += kThreads) {
      const i64 y = e.box.top + i32(k / u32(width)), x = e.box.left + i32(k % u32(width)),
                at = y * a.columns + x;
#pragma unroll
      for (int c = 0; c < kEraseChannels; ++c)
        if (c < a.channels)
          image[c * a.channel + at * a.pixel] =
              T(Noise ? erase_noise(e.noise, c * i64(a.rows) * a.columns + at) : a.value[c]);
    }
  }
}

template <class T>
void launch_type(const ImageEraseArgs& b, const Launch& l) {
  ImageErase a{b.rule};
  a.images = b.images.data, a.ids = b.ids, a.seed = b.seed, a.epoch = b.epoch;
  a.count = b.count(), a.channels = i32(b.images.size(1));
  a.rows = i32(b.images.size(2)), a.columns = i32(b.images.size(3));
  const i64 pixels = i64(a.rows) * a.columns;
  const bool last = image_layout(b.images) == ImageLayout::channels_last;
  a.each = pixels * a.channels;
  a.channel = last ? 1 : pixels, a.pixel = last ? a.channels : 1;
  for (int c = 0; c < kEraseChannels; ++c) a.value[c] = b.value[c];
  if (a.each == 0 || a.count == 0) return;
  const Config grid = grid_of(l, a.count, kThreads);
  b.rule.noise ? launch<image_erase_kernel<T, true>>(grid, a)
               : launch<image_erase_kernel<T, false>>(grid, a);
}

void launch_boxes(const ImageEraseArgs& a, const Launch& l) {
  switch (a.images.dtype()) {
    case DType::f16:
      return launch_type<__half>(a, l);
    case DType::bf16:
      return launch_type<__nv_bfloat16>(a, l);
    default:
      return launch_type<float>(a, l);
  }
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, image_erase, ImageEraseArgs,
            {.name = "boxes", .why_not = detail::bad_image_erase, .launch = launch_boxes});

}  // namespace wt
