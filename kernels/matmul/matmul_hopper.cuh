// Hopper's rung of the matrix product: TMA brings tiles, wgmma multiplies them where they lie.
//
// In the pipelined rung all threads do everything: addresses of the tiles that are to come, a
// barrier that stops the whole block each step, ldmatrix, mma, and an operand's fragments pass
// through registers. On Hopper mma.m16n8k16 has about half of the tensor cores' rate, and
// what is left is shared with that work. Here the warps are specialised. One thread of a ninth warp
// asks for boxes of 64 x 64 elements, whose addresses a unit computes; two warpgroups, 64 rows
// each, do nothing but name tiles by descriptors. Nobody meets at a barrier: each stage has two
// mbarriers, `full`, which the bytes end that TMA brings, and `empty`, at which the warps arrive
// that have multiplied it, so that the producer runs ahead of the slowest warp by all stages.
//
// An operand's tile is two boxes, one behind the other, in the orientation it has in memory: rows
// of 64 elements, 128 bytes, are along k (stored so that k is contiguous) or across it. wgmma reads
// both, by one bit of the instruction.
#pragma once
#include "warptape/kernels/device/tma.cuh"
#include "warptape/kernels/device/wgmma.cuh"
#include "warptape/kernels/matmul/matmul_finish.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kHopperSide = 128, kHopperDepth = 64;  // of a block's tile
constexpr int kHopperConsumers = 256, kHopperThreads = kHopperConsumers + 32;
// 32 KiB each, 96 KiB a block and 1 KiB to begin at a multiple of 1024: two blocks a processor, so
// that one multiplies while the other writes its sums. Four stages would be 129 KiB, one block.
constexpr int kHopperStages = 3;

constexpr int kBox = 64;  // elements along both sides
constexpr u32 kBoxBytes = kBox * kBox * 2;
struct HopperStage {
  unsigned char a[2][kBoxBytes], b[2][kBoxBytes];
};
constexpr size_t kHopperShared = kHopperStages * sizeof(HopperStage) + 1024;

// Asks for a tile's two boxes. x: its first line (row of a, column of b), p: its first k.
__device__ __forceinline__ void load_tile(unsigned char (&to)[2][kBoxBytes], const TensorMap* map,
                                          bool across, int x, int p, Mbarrier* full) {
#if WT_HAS_HOPPER
#pragma unroll
  for (int h = 0; h < 2; ++h)
    if (across)
      tma_load_2d(to[h], map, x + kBox * h, p, full);
    else
      tma_load_2d(to[h], map, p, x + kBox * h, full);
#endif
}

// The sums of a block with an epilogue: one band, in the memory of the stages. 8 more floats a row
// than columns: the eight rows of a store begin in four different quarters of the banks.
constexpr int kHopperPitch = kHopperSide + 8;
static_assert(kHopperSide * kHopperPitch * 4 <= kHopperStages * int(sizeof(HopperStage)));

// To be called by all threads of the block, when all products are made.
template <class T>
__device__ __forceinline__ void finish_staged(const MatmulArgs& g, void* stages, i64 i0, i64 j0,
                                              const float (&sum)[kHopperSide / 2], bool packs) {
  float* const band = static_cast<float*>(stages);
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  __syncthreads();  // the other warpgroup too has multiplied the last tiles
  if (warp < kHopperConsumers / 32) {
    float* const mine = band + (warp * 16 + lane / 4) * kHopperPitch + lane % 4 * 2;
#pragma unroll
    for (int c = 0; c < kHopperSide / 8; ++c) {
      vstore(mine + 8 * c, Pack<float, 2>{sum[4 * c], sum[4 * c + 1]});
      vstore(mine + 8 * kHopperPitch + 8 * c, Pack<float, 2>{sum[4 * c + 2], sum[4 * c + 3]});
    }
  }
  __syncthreads();
  finish_band<T, kHopperSide, kHopperSide, kHopperThreads>(g, band, kHopperPitch,
                                                           static_cast<T*>(g.out), i0, j0, packs);
}

// TA, TB, Ends, `packs`: as of matmul_mma.
template <class T, bool TA, bool TB, bool Ends>
__global__ void __launch_bounds__(kHopperThreads, 2)
    matmul_hopper(const __grid_constant__ MatmulArgs g, const __grid_constant__ TensorMap a_map,
                  const __grid_constant__ TensorMap b_map, bool packs) {
#if WT_HAS_HOPPER
  // A tile's row is along k where its lines are rows of memory: a as it is, b transposed.
  constexpr bool kAcrossA = TA, kAcrossB = !TB;
  WT_DYN_SHARED(unsigned char, raw);
  HopperStage* const stages = reinterpret_cast<HopperStage*>(align_1024(raw));
  WT_SHARED(Mbarrier, full, [kHopperStages]);
  WT_SHARED(Mbarrier, empty, [kHopperStages]);
  const TilePlace place = tile_place(blockIdx.x, u32((g.m + kHopperSide - 1) / kHopperSide),
                                     u32((g.n + kHopperSide - 1) / kHopperSide));
  const i64 i0 = place.row * kHopperSide, j0 = place.column * kHopperSide;
  const int steps = int((g.k + kHopperDepth - 1) / kHopperDepth);
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kHopperStages; ++s) {
      mbarrier_init(&full[s], 1);                       // the producer, and its bytes
      mbarrier_init(&empty[s], kHopperConsumers / 32);  // a lane of each warp
    }
    mbarrier_init_fence();
  }
  __syncthreads();  // from here on warps go their own ways, to the last product

  int stage = 0;
  unsigned parity = 0;  // of the phase that belongs to this round through the stages
  const auto next = [&]() WT_INLINE_LAMBDA {
    if (++stage == kHopperStages) stage = 0, parity ^= 1;
  };
  // 64 sums of a thread, all the registers that the products take: operands have none.
  float sum[kHopperSide / 2] = {};
  if (warp == kHopperConsumers / 32) {
    if (lane == 0)
      for (int step = 0; step < steps; ++step, next()) {
        // In the first round every stage is empty: a new mbarrier says so of parity 1.
        mbarrier_wait(&empty[stage], parity ^ 1);
        // Whole boxes, also at the edges: what lies outside is zero and counts as landed. So no
        // step knows of edges, and zeros add nothing.
        mbarrier_arrive_expect(&full[stage], u32(sizeof(HopperStage)));
        load_tile(stages[stage].a, &a_map, kAcrossA, int(i0), step * kHopperDepth, &full[stage]);
        load_tile(stages[stage].b, &b_map, kAcrossB, int(j0), step * kHopperDepth, &full[stage]);
      }
    if constexpr (Ends) __syncwarp();  // the lanes that ask for nothing have run ahead
  } else {
    const int group = warp / 4;
    for (int step = 0; step < steps; ++step, next()) {
      mbarrier_wait(&full[stage], parity);
      const uint64_t a = wgmma_descriptor(stages[stage].a[group]);
      const uint64_t b = wgmma_descriptor(stages[stage].b, kBoxBytes);
      // What the threads wrote to the sums, the zeros, comes before what the tensor cores add.
      wgmma_fence();
#pragma unroll
      for (int p = 0; p < kHopperDepth / 16; ++p)
        // A descriptor counts in 16 bytes: 16 k are 32 bytes along a row, or 16 rows of 128.
        wgmma<kHopperSide, T, kAcrossA, kAcrossB>(sum, a + p * (kAcrossA ? 128 : 2),
                                                  b + p * (kAcrossB ? 128 : 2));
      wgmma_commit();
      // This step's products go on; those of the step before are done with their stage. To wait for
      // this step's own would leave the tensor cores idle until the next tile's descriptors.
      wgmma_wait<1>();
      if (step > 0 && lane == 0)
        mbarrier_arrive(&empty[stage == 0 ? kHopperStages - 1 : stage - 1]);
    }
    wgmma_wait<0>();
    // Each sum has its terms in the order of k, and no other block adds to it: the same operands
    // give the same bits.
    if constexpr (!Ends) {
      const i64 i = i0 + warp * 16 + lane / 4, j = j0 + lane % 4 * 2;
      T* const out = static_cast<T*>(g.out);
#pragma unroll
      for (int c = 0; c < kHopperSide / 8; ++c) {
        finish_pair(g, out, i, j + 8 * c, sum[4 * c], sum[4 * c + 1], packs);
        finish_pair(g, out, i + 8, j + 8 * c, sum[4 * c + 2], sum[4 * c + 3], packs);
      }
    }
  }
  if constexpr (Ends) finish_staged<T>(g, stages, i0, j0, sum, packs);
#else
  __trap();  // compiled for another architecture, where hopper_why_not_on refuses
#endif
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
