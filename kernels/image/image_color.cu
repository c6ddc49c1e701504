// Colours of images on simt and cuda: a block an image, a thread the same pixels in every pass. The
// operations up to the first one that has to see all of the image are one pass, which gathers what
// that one needs, the rest another.
#include "warptape/kernels/image_color.h"

#include "warptape/kernels/device/bad_index.cuh"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 512;

struct ImageColor {
  ColorRule rule;
  float* images = nullptr;
  const i64* ids = nullptr;
  u64 seed = 0;
  i64 epoch = 0, count = 0, pixels = 0;
  MailboxRecord* mailbox = nullptr;
  u32 op_id = 0;

  template <class F>
  void visit_pointers(F&& f) const {
    f(images), f(ids), f(mailbox);
  }
};

// A thread's part of what an operation has to know.
struct Gathered {
  i64 sum = 0;
  float least[3] = {1, 1, 1}, most[3] = {0, 0, 0};
  __device__ __forceinline__ void add(const Rgb& p, bool grey) {
    sum += grey_units(p, grey);
    const float v[3] = {p.r, p.g, p.b};
#pragma unroll
    for (int c = 0; c < 3; ++c) {
      least[c] = v[c] < least[c] ? v[c] : least[c];
      most[c] = v[c] > most[c] ? v[c] : most[c];
    }
  }
};

// All threads of the block call it.
__device__ __forceinline__ ColorStats stats_of(const Gathered& own, ColorOp op, i64 pixels) {
  ColorStats s;
  if (op == ColorOp::contrast) {
    s.mean = detail::mean_grey(block_reduce(own.sum, Plus()), pixels);
    return s;
  }
#pragma unroll
  for (int c = 0; c < 3; ++c) {
    s.least[c] = -block_reduce(-own.least[c], Larger());
    s.most[c] = block_reduce(own.most[c], Larger());
  }
  return s;
}

// A thread's first pixel of a sample that is no colour goes to the mailbox.
__device__ __forceinline__ void check_colors(const ImageColor& a, i64 first, i64 each) {
  for (i64 k = threadIdx.x; k < each; k += blockDim.x) {
    const float v = a.images[first + k];
    if (detail::is_color(v)) continue;
    report_bad_index(a.mailbox, MailboxCode::pixel_out_of_range, a.op_id, first + k,
                     i64(__float_as_uint(v)), 1);
    return;
  }
}

template <bool Grey>
__global__ void __launch_bounds__(kThreads, 2) image_color_kernel(ImageColor a) {
  WT_SHARED(ColorProgram, drawn, [1]);
  for (i64 sample = blockIdx.x; sample < a.count; sample += gridDim.x) {
    if (threadIdx.x == 0)
      draw_colors(a.rule, a.seed, a.epoch, a.ids ? a.ids[sample] : sample, drawn[0]);
    __syncthreads();
    const i64 each = (Grey ? 1 : 3) * a.pixels;
    float* const image = a.images + sample * each;
    if (a.mailbox) {
      check_colors(a, sample * each, each);
      __syncthreads();  // before another thread writes what this one has looked at
    }
    const i32 count = drawn[0].count;
    ColorStats stats;
    i32 begin = 0, end = detail::next_stats(drawn[0], 0);
    while (begin < count) {
      Gathered gathered;
      for (i64 k = threadIdx.x; k < a.pixels; k += blockDim.x) {
        Rgb p{image[k], Grey ? 0.0f : image[k + a.pixels], Grey ? 0.0f : image[k + 2 * a.pixels]};
        p = detail::colored(p, drawn[0], begin, end, stats, Grey);
        if (end < count) gathered.add(p, Grey);
        if (begin == end) continue;
        image[k] = p.r;
        if constexpr (!Grey) image[k + a.pixels] = p.g, image[k + 2 * a.pixels] = p.b;
      }
      if (end < count) stats = stats_of(gathered, drawn[0].op[end], a.pixels);
      begin = end;
      end = detail::next_stats(drawn[0], begin + 1);
    }
    __syncthreads();  // before the next sample takes the program's place
  }
}

void launch_images(const ImageColorArgs& b, const Launch& l) {
  ImageColor a{b.rule};
  a.images = b.images.as<float>(), a.ids = b.ids, a.seed = b.seed, a.epoch = b.epoch;
  a.count = b.count(), a.pixels = b.images.size(2) * b.images.size(3);
  a.mailbox = b.mailbox, a.op_id = b.op_id;
  if (a.pixels == 0 || a.count == 0) return;
  // Some four pixels a thread.
  i64 threads = 32 * ceil_div(a.pixels, 128);
  threads = threads > kThreads ? kThreads : threads;
  const Config grid = grid_of(l, a.count, threads);
  b.images.size(1) == 1 ? launch<image_color_kernel<true>>(grid, a)
                        : launch<image_color_kernel<false>>(grid, a);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, image_color, ImageColorArgs,
            {.name = "images", .why_not = detail::bad_image_color, .launch = launch_images});

}  // namespace wt
