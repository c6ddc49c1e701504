// Batches of images on simt and cuda.
//   naive       a thread a pixel
//   vectorized  a thread neighbouring pixels, written 16 bytes at a time; images are not resized
#include "warptape/kernels/image_batch.h"

#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;

struct ImageGather {
  detail::ImageSource source;
  ImageAugment augment;
  void* out = nullptr;
  const void* images = nullptr;
  i64* targets = nullptr;
  const i64* labels = nullptr;
  DType from = DType::u8;
  i64 image_stride = 0, channel_stride = 0, row_stride = 0, column_stride = 0;  // of the images
  i64 out_sample = 0, out_channel = 0, out_pixel = 0;  // of the output: NCHW or NHWC
  i64 tiles = 0;                                       // blocks a sample
  i64 blocks = 0;
  i32 rows = 0, columns = 0, height = 0, width = 0, channels = 0;
  float scale[kImageChannels] = {}, shift[kImageChannels] = {};

  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(images), f(targets), f(labels), f(source.rows.list), f(source.ids),
        f(source.rows.cursor);
  }
};

// What all threads of a block need of their sample.
struct ImageSample {
  i64 row;
  ImageView view;
};

__device__ __forceinline__ float load_pixel(const ImageGather& a, i64 at) {
  // The same way for all threads.
  switch (a.from) {
    case DType::u8:
      return float(static_cast<const u8*>(a.images)[at]);
    case DType::f16:
      return float(static_cast<const __half*>(a.images)[at]);
    case DType::bf16:
      return float(static_cast<const __nv_bfloat16*>(a.images)[at]);
    default:
      return static_cast<const float*>(a.images)[at];
  }
}

// Pixels [x, x + V) of row y of a sample's output, all channels.
template <class T, int V, bool Last>
__device__ __forceinline__ void make_pixels(const ImageGather& a, const ImageSample& s, i64 sample,
                                            i32 y, i32 x) {
  const ImageView v = s.view;
  const i32 from_y = padded_place(v.top + y, a.rows, a.augment.reflect);
  const bool hole_row = y >= v.hole_top && y < v.hole_top + a.augment.hole;
  i64 at[V];
  bool inside[V], hole[V];
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const i32 seen = v.left + (v.mirrored ? a.width - 1 - (x + j) : x + j);
    const i32 from_x = padded_place(seen, a.columns, a.augment.reflect);
    inside[j] = from_y >= 0 && from_x >= 0;
    at[j] = s.row * a.image_stride + from_y * a.row_stride + from_x * a.column_stride;
    hole[j] = hole_row && x + j >= v.hole_left && x + j < v.hole_left + a.augment.hole;
  }
  T* const out =
      static_cast<T*>(a.out) + sample * a.out_sample + (i64(y) * a.width + x) * a.out_pixel;
  for (i32 c = 0; c < a.channels; ++c) {
    // Neighbouring lanes read neighbouring bytes of one line of the image, or of the same one
    // backwards: V loads of a byte a lane that meet in a few sectors. All are under way before the
    // first is used.
    float pixel[V];
#pragma unroll
    for (int j = 0; j < V; ++j)
      pixel[j] = inside[j] ? load_pixel(a, at[j] + c * a.channel_stride) : 0.0f;
    T made[V];
#pragma unroll
    for (int j = 0; j < V; ++j)
      made[j] = T(hole[j] ? 0.0f : __fmaf_rn(pixel[j], a.scale[c], a.shift[c]));
    if constexpr (Last)
    // The channels of a pixel lie side by side: what a warp writes is a run all the same, in
    // `channels` instructions that fill each other's sectors in the second-level cache.
#pragma unroll
      for (int j = 0; j < V; ++j) out[j * a.out_pixel + c] = made[j];
    else
      store_vector(out + c * a.out_channel, made);
  }
}

// Pixel x of row y out of a window of another size, all channels.
template <class T, bool Last>
__device__ __forceinline__ void resize_pixel(const ImageGather& a, const ImageSample& s, i64 sample,
                                             i32 y, i32 x) {
  const ImageView v = s.view;
  const ImageTaps down = image_taps(y, v.height, a.height, a.augment.antialias),
                  along = image_taps(v.mirrored ? a.width - 1 - x : x, v.width, a.width,
                                     a.augment.antialias);
  const i64 corner = s.row * a.image_stride + v.top * a.row_stride + v.left * a.column_stride;
  float sum[kImageChannels] = {}, weights = 0;
  // Neighbouring lanes weight nearly the same pixels, which come from the first-level cache.
  for (i32 i = down.begin; i < down.end; ++i) {
    const float height = down.weight(i);
    for (i32 k = along.begin; k < along.end; ++k) {
      const float weight = height * along.weight(k);
      const i64 at = corner + i * a.row_stride + k * a.column_stride;
      weights += weight;
#pragma unroll
      for (int c = 0; c < kImageChannels; ++c)
        if (c < a.channels) sum[c] += weight * load_pixel(a, at + c * a.channel_stride);
    }
  }
  const bool hole = y >= v.hole_top && y < v.hole_top + a.augment.hole && x >= v.hole_left &&
                    x < v.hole_left + a.augment.hole;
  T* const out =
      static_cast<T*>(a.out) + sample * a.out_sample + (i64(y) * a.width + x) * a.out_pixel;
#pragma unroll
  for (int c = 0; c < kImageChannels; ++c)
    if (c < a.channels)
      out[c * a.out_channel] = T(hole ? 0.0f : __fmaf_rn(sum[c] / weights, a.scale[c], a.shift[c]));
}

template <class T, int V, bool Last, bool Resize>
__global__ void __launch_bounds__(kThreads, 8) image_batch_kernel(ImageGather a) {
  WT_SHARED(ImageSample, own, [1]);
  const i32 groups = a.width / V;  // of V pixels in a row
  for (i64 block = blockIdx.x; block < a.blocks; block += gridDim.x) {
    const i64 sample = block / a.tiles, tile = block - sample * a.tiles;
    // The epoch's order and the draws are some hundred instructions: one thread's, not every one's.
    if (threadIdx.x == 0) {
      const i64 epoch = a.source.rows.epoch_now();
      ImageSample s;
      s.row = a.source.rows.row(sample, epoch);
      s.view =
          draw_image_view<Resize>(a.augment, a.source.rows.seed, epoch, a.source.id(sample, s.row),
                                  a.rows, a.columns, a.height, a.width);
      own[0] = s;
      if (a.targets && tile == 0) a.targets[sample] = a.labels[s.row];
    }
    __syncthreads();
    const ImageSample s = own[0];
    __syncthreads();  // before the next sample takes its place
    const i64 group = tile * kThreads + threadIdx.x;
    if (group >= i64(groups) * a.height) continue;
    const i32 y = i32(u32(group) / u32(groups));
    const i32 x = (i32(group) - y * groups) * V;
    if constexpr (Resize)
      resize_pixel<T, Last>(a, s, sample, y, x);
    else
      make_pixels<T, V, Last>(a, s, sample, y, x);
  }
}

template <class T, int V, bool Last, bool Resize>
void launch_pixels(const ImageBatchArgs& b, const Launch& l) {
  const View& in = b.images;
  ImageGather a{detail::ImageSource(b), b.augment};
  a.out = b.out.data, a.images = in.data, a.targets = b.targets, a.labels = b.labels;
  a.from = in.dtype();
  a.image_stride = in.stride(0), a.channel_stride = in.stride(1);
  a.row_stride = in.stride(2), a.column_stride = in.stride(3);
  a.rows = i32(in.size(2)), a.columns = i32(in.size(3));
  a.channels = i32(b.out.size(1)), a.height = i32(b.out.size(2)), a.width = i32(b.out.size(3));
  const i64 pixels = i64(a.height) * a.width;
  a.out_sample = pixels * a.channels;
  a.out_channel = Last ? 1 : pixels, a.out_pixel = Last ? a.channels : 1;
  for (int c = 0; c < kImageChannels; ++c) a.scale[c] = b.scale[c], a.shift[c] = b.shift[c];
  // A sample without pixels has a label all the same.
  a.tiles = pixels ? ceil_div(pixels / V, kThreads) : 1;
  a.blocks = b.count() * a.tiles;
  if (a.blocks == 0) return;
  launch<image_batch_kernel<T, V, Last, Resize>>(grid_of(l, a.blocks, kThreads), a);
}

template <int V, bool Last, bool Resize>
void launch_type(const ImageBatchArgs& a, const Launch& l) {
  switch (a.out.dtype()) {
    case DType::f16:
      return launch_pixels < __half, V == 1 ? 1 : 8, Last, Resize > (a, l);
    case DType::bf16:
      return launch_pixels < __nv_bfloat16, V == 1 ? 1 : 8, Last, Resize > (a, l);
    default:
      return launch_pixels<float, V, Last, Resize>(a, l);
  }
}
template <bool Last>
void launch_single(const ImageBatchArgs& a, const Launch& l) {
  a.augment.fit == ImageFit::window ? launch_type<1, Last, false>(a, l)
                                    : launch_type<1, Last, true>(a, l);
}
void launch_naive(const ImageBatchArgs& a, const Launch& l) {
  a.out.dense() ? launch_single<false>(a, l) : launch_single<true>(a, l);
}
void launch_vectorized(const ImageBatchArgs& a, const Launch& l) {
  launch_type<4, false, false>(a, l);
}

const char* why_not(const ImageBatchArgs& a) {
  if (const char* why = detail::bad_image_batch(a)) return why;
  const View& o = a.out;
  const bool last = o.stride(1) == 1 && o.stride(3) == o.size(1) &&
                    o.stride(2) == o.size(1) * o.size(3) &&
                    o.stride(0) == o.size(1) * o.size(2) * o.size(3);
  return o.dense() || last ? nullptr : "the output must be contiguous or channels_last";
}
const char* why_not_vectorized(const ImageBatchArgs& a) {
  if (const char* why = why_not(a)) return why;
  if (a.augment.fit != ImageFit::window) return "images are resized";
  if (!a.out.dense()) return "the output must be contiguous";
  return a.out.size(3) % (16 / item_size(a.out.dtype())) == 0 && aligned_16(a.out.data)
             ? nullptr
             : "rows of the output must lie at 16-byte boundaries";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, image_batch, ImageBatchArgs,
    {.name = "vectorized", .rank = 10, .why_not = why_not_vectorized, .launch = launch_vectorized},
    {.name = "naive", .why_not = why_not, .launch = launch_naive});

}  // namespace wt
