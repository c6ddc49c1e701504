// Mixup and cutmix on simt and cuda.
//   naive       a thread an element
//   vectorized  a thread 16 bytes of an image
#include "warptape/kernels/image_mix.h"

#include "warptape/kernels/device/bad_index.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;
constexpr int kEach = 2;  // accesses a thread: all are under way before the first is used

struct ImageMix {
  MixRule rule;
  void* out = nullptr;
  const void* images = nullptr;
  float* targets = nullptr;
  const i64 *labels = nullptr, *cursor = nullptr;
  MailboxRecord* mailbox = nullptr;
  u64 seed = 0;
  i64 epoch = 0, batch = 0, count = 0, classes = 0, label_step = 0;
  i64 each = 0;   // elements of an image
  i64 tiles = 0;  // blocks a sample
  i64 blocks = 0;
  float smoothing = 0;
  i32 height = 0, width = 0, channels = 0;  // channels: of a pixel's neighbours, 1 where planes
  u32 op_id = 0;

  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(images), f(targets), f(labels), f(cursor), f(mailbox);
  }
};

__device__ __forceinline__ i64 label_of(const ImageMix& a, i64 sample) {
  const i64 label = a.labels[sample * a.label_step];
  if (label >= 0 && label < a.classes) return label;
  if (threadIdx.x == 0)
    report_bad_index(a.mailbox, MailboxCode::label_out_of_range, a.op_id, sample, label, a.classes);
  return 0;
}

__device__ __forceinline__ void write_targets(const ImageMix& a, const Mixture& m, i64 sample) {
  const i64 own = label_of(a, sample), other = label_of(a, m.partner);
  const float off = a.smoothing / float(a.classes);
  for (i64 c = threadIdx.x; c < a.classes; c += kThreads)
    a.targets[sample * a.classes + c] =
        __fmaf_rn(m.share, smooth_label(c == own, off, a.smoothing),
                  __fmul_rn(1 - m.share, smooth_label(c == other, off, a.smoothing)));
}

// Where an element of an image lies, and the one after it in memory.
struct Place {
  i32 y, x, c;
  __device__ __forceinline__ Place(const ImageMix& a, i64 k) {
    const u32 pixels = u32(a.height) * u32(a.width);
    c = i32(a.channels == 1 ? 0 : k % a.channels);
    const u32 pixel = u32(a.channels == 1 ? k % pixels : k / a.channels);
    y = i32(pixel / u32(a.width)), x = i32(pixel) - y * a.width;
  }
  __device__ __forceinline__ bool within(const Mixture& m) const {
    return y >= m.top && y < m.bottom && x >= m.left && x < m.right;
  }
  __device__ __forceinline__ void next(const ImageMix& a) {
    if (++c < a.channels) return;
    c = 0;
    if (++x < a.width) return;
    x = 0;
    if (++y == a.height) y = 0;
  }
};

template <class T, int V>
__device__ __forceinline__ void mix(T (&mine)[V], const T (&theirs)[V], const ImageMix& a,
                                    const Mixture& m, i64 k) {
  if (m.cut) {
    Place at(a, k);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (at.within(m)) mine[v] = theirs[v];
      if (v + 1 < V) at.next(a);
    }
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v)
      mine[v] = T(__fmaf_rn(m.share, float(mine[v]), __fmul_rn(1 - m.share, float(theirs[v]))));
  }
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads, 6) image_mix_kernel(ImageMix a) {
  WT_SHARED(Mixture, drawn, [1]);
  for (i64 block = blockIdx.x; block < a.blocks; block += gridDim.x) {
    const i64 sample = block / a.tiles, tile = block - sample * a.tiles;
    if (threadIdx.x == 0)
      drawn[0] = draw_mixture(a.rule, a.seed, a.cursor ? a.cursor[0] : a.epoch,
                              a.cursor ? a.cursor[1] : a.batch, sample, a.count, a.height, a.width);
    __syncthreads();
    const Mixture m = drawn[0];
    __syncthreads();  // before the next sample takes its place
    if (tile == 0 && a.targets) write_targets(a, m, sample);
    const T *const own = static_cast<const T*>(a.images) + sample * a.each,
                   *const other = static_cast<const T*>(a.images) + m.partner * a.each;
    T* const out = static_cast<T*>(a.out) + sample * a.each;
    const i64 first = (tile * kThreads * kEach + threadIdx.x) * V;
    T mine[kEach][V], theirs[kEach][V];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const i64 k = first + i64(j) * kThreads * V;
      if (k >= a.each) break;
      load_vector(mine[j], own + k), load_vector(theirs[j], other + k);
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const i64 k = first + i64(j) * kThreads * V;
      if (k >= a.each) break;
      mix(mine[j], theirs[j], a, m, k);
      store_vector(out + k, mine[j]);
    }
  }
}

template <class T, int V>
void launch_mix(const ImageMixArgs& b, const Launch& l) {
  ImageMix a{b.rule};
  a.out = b.out.data, a.images = b.images.data, a.cursor = b.cursor;
  a.mailbox = b.mailbox, a.op_id = b.op_id;
  a.seed = b.seed, a.epoch = b.epoch, a.batch = b.batch, a.smoothing = b.smoothing;
  a.count = b.count(), a.height = i32(b.out.size(2)), a.width = i32(b.out.size(3));
  if (b.targets) {
    a.targets = b.targets.as<float>(), a.labels = b.labels.as<const i64>();
    a.classes = b.targets.size(1), a.label_step = b.labels.stride(0);
  }
  a.channels = image_layout(b.out) == ImageLayout::channels_last ? i32(b.out.size(1)) : 1;
  a.each = b.out.size(1) * a.height * a.width;
  // A sample without pixels has a label all the same.
  a.tiles = a.each ? ceil_div(a.each, i64(kThreads) * kEach * V) : 1;
  a.blocks = a.count * a.tiles;
  if (a.blocks == 0) return;
  launch<image_mix_kernel<T, V>>(grid_of(l, a.blocks, kThreads), a);
}

template <bool Vectors>
void launch_type(const ImageMixArgs& a, const Launch& l) {
  switch (a.out.dtype()) {
    case DType::f16:
      return launch_mix < __half, Vectors ? 8 : 1 > (a, l);
    case DType::bf16:
      return launch_mix < __nv_bfloat16, Vectors ? 8 : 1 > (a, l);
    default:
      return launch_mix < float, Vectors ? 4 : 1 > (a, l);
  }
}

const char* why_not_vectorized(const ImageMixArgs& a) {
  if (const char* why = detail::bad_image_mix(a)) return why;
  const i64 each = a.out.size(1) * a.out.size(2) * a.out.size(3);
  return each % (16 / item_size(a.out.dtype())) == 0 && aligned_16(a.out.data) &&
                 aligned_16(a.images.data)
             ? nullptr
             : "images must lie at 16-byte boundaries";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, image_mix, ImageMixArgs,
    {.name = "vectorized", .rank = 10, .why_not = why_not_vectorized, .launch = launch_type<true>},
    {.name = "naive", .why_not = detail::bad_image_mix, .launch = launch_type<false>});

}  // namespace wt
