// Split-K: how the matrix product's last two rungs cut k, and the kernel that adds the parts.
//
// A tile is a block's, and a result of 256 x 256 has 16 tiles of 64: 16 of an H100's 132 processors
// multiply, one block each, with nothing to do while a load is under way. Such results are what
// training makes: a weight's gradient is as small as the weight, and its k is all rows of a batch.
// So k is cut into parts with blocks of their own. They leave f32 sums in a workspace, and a second
// kernel adds the parts in their order, whatever order the blocks ran in: the same operands give
// the same bits. How many parts there are follows from the shape alone, and so the bits do not
// depend on the GPU.
//
// The second kernel, and what it reads and writes, is the price: 8 bytes an element and part, most
// of it in L2.
#pragma once
#include "warptape/kernels/matmul/matmul_mma.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Blocks that a product should have: two for each of an H100's 132 processors. And the shortest
// part: 8 steps of 32, which a pipeline of four stages still fills.
constexpr i64 kSplitBlocks = 264, kShortestPart = 256;
constexpr int kSplitSide = SmallMma::kRows;  // of the tiles of `split_k`, f32's too
static_assert(kSplitSide == SmallMma::kColumns && LargeMma::kRows == LargeMma::kColumns);

// How k is cut for tiles of side x side. No memory yet.
inline KParts parts_of(const MatmulArgs& g, int side) {
  KParts parts{.each = g.k, .pitch = (g.n + 3) / 4 * 4};
  const double all = double(tiles(g.m, side)) * tiles(g.n, side) * double(g.batches());
  if (all == 0 || all > double(kSplitBlocks)) return parts;
  const i64 wanted = kSplitBlocks / i64(all), most = g.k / kShortestPart;
  const i64 count = wanted < most ? wanted : most;
  if (count < 2) return parts;
  parts.each = ((g.k + count - 1) / count + kMmaDepth - 1) / kMmaDepth * kMmaDepth;
  parts.count = int((g.k + parts.each - 1) / parts.each);
  return parts;
}

template <int Side>
i64 split_workspace(const MatmulArgs& g) {
  const KParts p = parts_of(g, Side);
  return 4 * p.count * (g.batches() * g.m * p.pitch + (g.row_sum ? g.m : 0));
}

template <int Side>
KParts parts_in(const MatmulArgs& g, const Launch& l) {
  KParts p = parts_of(g, Side);
  p.sums = static_cast<float*>(l.workspace);
  if (g.row_sum) p.row_sums = p.sums + p.count * g.batches() * g.m * p.pitch;
  return p;
}

constexpr int kAddThreads = 256;

// The second stage: a thread four columns of a row; behind them, a thread a row sum.
template <class T>
__global__ void __launch_bounds__(kAddThreads)
    matmul_add_parts(const __grid_constant__ MatmulArgs g, const __grid_constant__ KParts parts,
                     i64 batches, bool packs) {
  // 32 bits: see why_not_split().
  const u32 fours = u32(parts.pitch / 4), index = blockIdx.x * kAddThreads + threadIdx.x;
  const u32 i = index / fours, j = index % fours * 4;
  if (i >= u32(g.m)) {
    const u32 row = index - u32(g.m) * fours;
    if (!g.row_sum || row >= u32(g.m)) return;
    float sum = 0;
    for (int p = 0; p < parts.count; ++p) sum += parts.row_sums[p * g.m + row];
    finish(static_cast<T*>(g.row_sum)[row], sum, g.row_sum_accumulate);
    return;
  }
  const i64 step = g.m * parts.pitch;
  for (i64 z = blockIdx.z; z < batches; z += gridDim.z) {
    const float* from = parts.sums + z * parts.count * step + i64(i) * parts.pitch + j;
    float sum[4] = {};
    // Parts come one after the other into the sum, but four of them are asked for at once: 64 bytes
    // of a thread under way, and a warp's 512 of each part are neighbours.
#pragma unroll 4
    for (int p = 0; p < parts.count; ++p) {
      float part[4];
      load_vector<4>(part, from + p * step);
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] += part[e];
    }
    finish_some(g, matrices_at<T>(g, z).out + i64(i) * g.out_row + j, j, sum, packs);
  }
}

// Products that are not worth it come in one part, so that who names a rung gets it throughout.
inline const char* why_not_split(const MatmulArgs& g) {
  // The second stage counts in 32 bits.
  return double(g.m) * double(g.n + 4) >= double(i64{1} << 31)
             ? "takes results of fewer than 2^31 elements only"
             : nullptr;
}
}  // namespace

// Adds the parts in their order: the second stage (matmul.cu).
void add_parts(const MatmulArgs& g, const KParts& parts, const Launch& l);

}  // namespace WT_DEVICE_NS
}  // namespace wt
