// Deliberately wrong uses of mbarrier, TMA and wgmma; see broken_kernels.cu. Two kernels that are
// right with Bug::none, and one mistake each with the others.
#include "warptape/kernels/device/tma.cuh"
#include "warptape/kernels/device/wgmma.cuh"
//
#include "warptape/tests/simt/broken_kernels.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

enum class Bug {
  none,
  barrier_not_made,
  barrier_made_twice,
  barrier_misplaced,
  barrier_without_sync,
  barrier_without_fence,
  barrier_overwritten,
  barrier_passed_early,
  barrier_hangs,
  barrier_too_few_arrivals,
  barrier_too_many_arrivals,
  barrier_more_bytes,
  barrier_fewer_bytes,
  barrier_two_phases,
  tma_read_early,
  tma_wait_of_another,
  tma_not_waited,
  tma_into_used_stage,
  tma_twice,
  tma_misaligned_target,
  tma_misaligned_swizzle,
  tma_beyond_array,
  wgmma_no_fence,
  wgmma_no_second_fence,
  wgmma_not_waited,
  wgmma_wrong_group,
  wgmma_not_committed,
  wgmma_tile_overwritten,
  wgmma_tile_stored,
  wgmma_before_load,
  wgmma_wrong_swizzle,
  wgmma_unswizzled_tile,
  wgmma_wrong_start,
  wgmma_beyond_array,
  wgmma_of_three_warps,
  wgmma_two_descriptors,
};

// --- Loads: o[t] = x[127 - t] + x[255 - t], two boxes of 4 x 32 floats, one after the other ---

struct alignas(1024) Stage {
  float v[128];
};

template <Bug B>
__global__ void loads(float* o, const __grid_constant__ TensorMap map) {
#if WT_HAS_HOPPER
  WT_SHARED(Stage, s, [2]);
  WT_SHARED(Mbarrier, full, [2]);
  const int t = threadIdx.x;
  const unsigned arrivals = B == Bug::barrier_too_few_arrivals ? 2 : 1;
  if (t == 0 && B != Bug::barrier_not_made) {
    mbarrier_init(&full[0], arrivals);                             // BUG barrier_made
    if (B == Bug::barrier_made_twice) mbarrier_init(&full[0], 1);  // BUG barrier_made_twice
    if (B == Bug::barrier_misplaced)
      mbarrier_init(reinterpret_cast<Mbarrier*>(o), 1);  // BUG barrier_misplaced
    mbarrier_init(&full[1], 1);
    if (B == Bug::barrier_two_phases) {
      mbarrier_arrive(&full[0]);
      mbarrier_arrive(&full[0]);
    }
    if (B != Bug::barrier_without_fence) mbarrier_init_fence();
  }
  if (B != Bug::barrier_without_sync) __syncthreads();
  if (t == 0) {
    if (B == Bug::barrier_overwritten) full[0].bits = 0;
    const unsigned bytes = B == Bug::barrier_more_bytes ? 640 : 512;
    mbarrier_arrive_expect(&full[0], bytes);  // BUG barrier_expect
    if (B == Bug::barrier_fewer_bytes) {
      tma_load_2d(s[1].v, &map, 0, 0, &full[0]);
      tma_load_2d(s[0].v, &map, 0, 0, &full[0]);  // BUG barrier_fewer_bytes
    } else if (B == Bug::tma_misaligned_target) {
      tma_load_2d(s[0].v + 4, &map, 0, 0, &full[0]);  // BUG tma_misaligned_target
    } else if (B == Bug::tma_beyond_array) {
      tma_load_2d(s[1].v + 224, &map, 0, 0, &full[0]);  // BUG tma_beyond_array
    } else {
      tma_load_2d(s[0].v, &map, 0, 0, &full[0]);  // BUG tma_load
    }
    if (B == Bug::tma_twice) tma_load_2d(s[0].v, &map, 0, 4, &full[0]);  // BUG tma_twice
    if (B == Bug::barrier_too_many_arrivals)
      mbarrier_arrive(&full[0]);  // BUG barrier_too_many_arrivals
  }
  float a = 0;
  if (B == Bug::tma_read_early) a = s[0].v[127 - t];  // BUG tma_read_early
  if (B == Bug::tma_wait_of_another) {
    if (t == 0) mbarrier_wait(&full[0], 0);
    for (int i = 0; i < 2; ++i) __nanosleep(100);
    a = s[0].v[127 - t];  // BUG tma_wait_of_another
  }
  if (B == Bug::barrier_passed_early) {
    mbarrier_wait(&full[0], 1);
    a = s[0].v[127 - t];  // BUG barrier_passed_early
  }
  if (B != Bug::tma_not_waited) mbarrier_wait(&full[0], 0);  // BUG barrier_wait
  if (B == Bug::barrier_hangs) mbarrier_wait(&full[0], 1);   // BUG barrier_hangs
  if (B == Bug::tma_read_early || B == Bug::tma_wait_of_another || B == Bug::barrier_passed_early) {
  } else if (B != Bug::tma_not_waited) {
    a = s[0].v[127 - t];  // BUG tma_read
  }
  if (B == Bug::tma_not_waited) return;
  // The second load, where all have to be done with the first.
  const bool same = B == Bug::tma_into_used_stage;
  if (!same) __syncthreads();
  if (t == 0) {
    mbarrier_arrive_expect(&full[1], 512);
    tma_load_2d(s[!same].v, &map, 0, 4, &full[1]);  // BUG tma_second_load
  }
  mbarrier_wait(&full[1], 0);
  o[t] = a + s[!same].v[127 - t];
#endif
}

// --- Products: d = A A^T, A 64 x 64 of f16; o[t] = the sum of thread t's ---

struct alignas(1024) Tile {
  __half v[64][64];
};

template <Bug B>
__global__ void product(float* o, const __grid_constant__ TensorMap map) {
#if WT_HAS_HOPPER
  WT_SHARED(Tile, tiles, [2]);
  WT_SHARED(Mbarrier, full, [2]);
  const int t = threadIdx.x;
  if (t == 0) {
    mbarrier_init(&full[0], 1);
    mbarrier_init(&full[1], 1);
    mbarrier_init_fence();
  }
  __syncthreads();
  if (t == 0) {
    mbarrier_arrive_expect(&full[0], sizeof(Tile));
    __half* const to = tiles[0].v[B == Bug::tma_misaligned_swizzle];
    tma_load_2d(to, &map, 0, 0, &full[0]);  // BUG tma_swizzled
  }
  if (B != Bug::wgmma_before_load) mbarrier_wait(&full[0], 0);
  float d[32] = {};
  const auto multiply = [&](int k) WT_INLINE_LAMBDA {
    if (B == Bug::wgmma_of_three_warps && t >= 96) return;
    const char* from = reinterpret_cast<const char*>(tiles) + 32 * k;
    if (B == Bug::wgmma_wrong_start) from += 128;
    if (B == Bug::wgmma_beyond_array) from += 12 * 1024;
    const uint64_t a = wgmma_descriptor(from);
    uint64_t b = a;
    if (B == Bug::wgmma_wrong_swizzle) b ^= uint64_t(3) << 62;
    if (B == Bug::wgmma_two_descriptors && t == 5) b += 2;
    wgmma<64, __half, false, false>(d, a, b);  // BUG wgmma
  };
  if (B != Bug::wgmma_no_fence) wgmma_fence();
  for (int k = 0; k < 2; ++k) multiply(k);
  if (B != Bug::wgmma_not_committed) wgmma_commit();
  if (B == Bug::wgmma_tile_overwritten) {
    if (t == 0) {
      mbarrier_arrive_expect(&full[1], sizeof(Tile));
      tma_load_2d(tiles[0].v, &map, 0, 0, &full[1]);  // BUG wgmma_tile_overwritten
    }
  }
  if (B == Bug::wgmma_tile_stored && t == 0)
    tiles[0].v[3][5] = __half(9.0f);  // BUG wgmma_tile_stored
  float early = 0;
  if (B == Bug::wgmma_not_waited) early = d[3];  // BUG wgmma_not_waited
  wgmma_wait<0>();
  if (B == Bug::wgmma_not_committed) early = d[3];  // BUG wgmma_not_committed
  if (B == Bug::wgmma_no_second_fence) {
    for (int i = 0; i < 32; ++i) d[i] *= 2;
  } else {
    wgmma_fence();
  }
  for (int k = 2; k < 4; ++k) multiply(k);
  wgmma_commit();
  if (B == Bug::wgmma_wrong_group) {
    wgmma_fence();
    wgmma_wait<1>();
    early = d[3];  // BUG wgmma_wrong_group
  }
  wgmma_wait<0>();
  float sum = early;
  for (int i = 0; i < 32; ++i) sum += d[i];
  o[t] = sum;
#endif
}

TensorBox floats(const float* x) {
  return {.data = x,
          .inner = 32,
          .outer = 8,
          .stride_bytes = 128,
          .box_inner = 32,
          .box_outer = 4,
          .item = 4};
}
template <Bug B>
void run_loads(float* o, const float* x) {
  launch<loads<B>>({.grid = 1, .block = 128, .op_name = "broken"}, o, tensor_map_2d(floats(x)));
}
// The 64 rows of A overlap: each begins 8 elements behind the one before.
template <Bug B>
void run_product(float* o, const float* x) {
  TensorBox box{.data = x,
                .inner = 64,
                .outer = 64,
                .stride_bytes = 16,
                .box_inner = 64,
                .box_outer = 64,
                .item = 2};
  box.swizzled = B != Bug::wgmma_unswizzled_tile;
  launch<product<B>>({.grid = 1, .block = 128, .op_name = "broken"}, o, tensor_map_2d(box));
}
// One rule of tensor maps broken.
template <class Change>
void run_map(float* o, const float* x, Change change) {
  TensorBox box = floats(x);
  change(box);
  launch<loads<Bug::none>>({.grid = 1, .block = 128, .op_name = "broken"}, o, tensor_map_2d(box));
}

}  // namespace

#define WT_LOADS(bug) \
  { #bug, run_loads < Bug::bug> }
#define WT_PRODUCT(bug) \
  { #bug, run_product < Bug::bug> }
#define WT_MAP(name, change)                                                            \
  {                                                                                     \
    name, [](float* o, const float* x) { run_map(o, x, [](TensorBox& b) { change; }); } \
  }
const BrokenKernel broken_hopper[] = {
    {"loads", run_loads<Bug::none>},
    WT_LOADS(barrier_not_made),
    WT_LOADS(barrier_made_twice),
    WT_LOADS(barrier_misplaced),
    WT_LOADS(barrier_without_sync),
    WT_LOADS(barrier_without_fence),
    WT_LOADS(barrier_overwritten),
    WT_LOADS(barrier_passed_early),
    WT_LOADS(barrier_hangs),
    WT_LOADS(barrier_too_few_arrivals),
    WT_LOADS(barrier_too_many_arrivals),
    WT_LOADS(barrier_more_bytes),
    WT_LOADS(barrier_fewer_bytes),
    WT_LOADS(barrier_two_phases),
    WT_LOADS(tma_read_early),
    WT_LOADS(tma_wait_of_another),
    WT_LOADS(tma_not_waited),
    WT_LOADS(tma_into_used_stage),
    WT_LOADS(tma_twice),
    WT_LOADS(tma_misaligned_target),
    WT_LOADS(tma_beyond_array),
    WT_MAP("map_misaligned", b.data = static_cast<const char*>(b.data) + 4),
    WT_MAP("map_stride", b.stride_bytes = 100),
    WT_MAP("map_box_row", b.box_inner = 30),
    WT_MAP("map_box", b.box_outer = 257),
    WT_MAP("map_swizzle", (b.swizzled = true, b.box_inner = 16)),
    WT_MAP("map_beyond_source", (b.data = static_cast<const char*>(b.data) + 1280, b.outer = 100)),
    {"product", run_product<Bug::none>},
    WT_PRODUCT(tma_misaligned_swizzle),
    WT_PRODUCT(wgmma_no_fence),
    WT_PRODUCT(wgmma_no_second_fence),
    WT_PRODUCT(wgmma_not_waited),
    WT_PRODUCT(wgmma_wrong_group),
    WT_PRODUCT(wgmma_not_committed),
    WT_PRODUCT(wgmma_tile_overwritten),
    WT_PRODUCT(wgmma_tile_stored),
    WT_PRODUCT(wgmma_before_load),
    WT_PRODUCT(wgmma_wrong_swizzle),
    WT_PRODUCT(wgmma_unswizzled_tile),
    WT_PRODUCT(wgmma_wrong_start),
    WT_PRODUCT(wgmma_beyond_array),
    WT_PRODUCT(wgmma_of_three_warps),
    WT_PRODUCT(wgmma_two_descriptors),
};
const int broken_hopper_count = int(sizeof broken_hopper / sizeof broken_hopper[0]);

}  // namespace WT_DEVICE_NS
}  // namespace wt
