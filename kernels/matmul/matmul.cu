// Matrix product on simt and cuda: the first rung, row sums, split-K's second stage and the list of
// variants. The ladder:
//   naive              one thread an element
//   tiled              tiles in shared memory, register blocking: matmul/matmul_tiled.cuh
//   tensor_core        mma.m16n8k16, for f16 and bf16: matmul_tensor_core.cu, matmul_small_tiles.cu
//                      and matmul/matmul_mma.cuh
//   pipelined          the same with a pipeline of asynchronous copies: matmul_pipelined.cu and
//                      matmul/matmul_pipelined.cuh
//   split_k, pipelined_split_k  k in parts with blocks of their own, for results of few tiles:
//                      matmul/matmul_split.cuh
//   hopper             TMA and wgmma: matmul_hopper.cu
#include "warptape/kernels/dispatch/run_matmul_epilogue.h"
#include "warptape/kernels/matmul/matmul_split.cuh"
#include "warptape/kernels/matmul/matmul_tiled.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// --- naive: one thread an element, every operand read from global memory ---

constexpr int kNaiveSide = 16;

template <class T>
__global__ void __launch_bounds__(kNaiveSide* kNaiveSide)
    matmul_naive(const __grid_constant__ MatmulArgs g, i64 batches) {
  using Sum = typename MatmulSum<T>::type;
  // A warp is two rows of 16 threads: where b's columns are neighbours its load of b is two sectors
  // of 32 bytes (f32) that both rows share, and its load of a two single elements, each sent to 16
  // lanes.
  const u32 tile_columns = u32((g.n + kNaiveSide - 1) / kNaiveSide);
  const i64 i = i64(blockIdx.x / tile_columns) * kNaiveSide + threadIdx.y;
  const i64 j = i64(blockIdx.x % tile_columns) * kNaiveSide + threadIdx.x;
  if (i >= g.m || j >= g.n) return;
  for (i64 z = blockIdx.z; z < batches; z += gridDim.z) {
    const Matrices<T> x = matrices_at<T>(g, z);
    const T* a = x.a + i * g.a_row;
    const T* b = x.b + j * g.b_column;
    Sum sum = 0;
    // Two loads for one multiplication: all of a is read n times and all of b m times, from L1 and
    // L2 at best. The arithmetic units wait; the rungs above exist to load an element once and use
    // it many times.
    for (i64 p = 0; p < g.k; ++p) sum += Sum(a[p * g.a_column]) * Sum(b[p * g.b_row]);
    Sum all[] = {sum};
    finish_some(g, x.out + i * g.out_row + j, j, all, false);
  }
}

// row_sum for the variants that do not make it on the way: 32 rows a block, which are neighbours in
// memory where a is dy^T; 16 threads share the terms of a row.
constexpr int kSumRows = 32, kSumThreads = 16;

template <class T>
__global__ void __launch_bounds__(kSumRows* kSumThreads)
    matmul_row_sums(const __grid_constant__ MatmulArgs g) {
  using Sum = typename MatmulSum<T>::type;
  // threadIdx.x is the fast axis: 32 neighbours write 32 neighbouring banks, here and below.
  WT_SHARED(Sum, part, [kSumThreads][kSumRows]);
  const i64 i = i64(blockIdx.x) * kSumRows + threadIdx.x;
  const T* a = static_cast<const T*>(g.a) + i * g.a_row;
  Sum sum = 0;
  if (i < g.m)
    for (i64 p = threadIdx.y; p < g.k; p += kSumThreads) sum += Sum(a[p * g.a_column]);
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  // After the barrier, never before it: a thread that returns early would leave the others waiting.
  // The partial sums are added in one order, y ascending, whatever warp came first.
  if (threadIdx.y != 0 || i >= g.m) return;
  for (int y = 1; y < kSumThreads; ++y) sum += part[y][threadIdx.x];
  finish(static_cast<T*>(g.row_sum)[i], sum, g.row_sum_accumulate);
}

// Calls f(TypeTag<T>{}) with the device's type of a dtype.
template <class F>
void with_type(DType t, F f) {
  if (t == DType::i64)
    f(TypeTag<i64>{});
  else if (t == DType::i32)
    f(TypeTag<i32>{});
  else
    with_float_or_double(t, f);
}

}  // namespace

void launch_row_sums(const MatmulArgs& g, const Launch& l) {
  const Config c{.grid = tiles(g.m, kSumRows),
                 .block = dim3(kSumRows, kSumThreads),
                 .stream = l.stream,
                 .op_name = l.op ? l.op->name : nullptr};
  with_type(g.dtype, [&]<class T>(TypeTag<T>) { launch<matmul_row_sums<T>>(c, g); });
}

namespace {

void naive(const MatmulArgs& g, const Launch& l) {
  const Config c = tile_grid(g, l, kNaiveSide, kNaiveSide, dim3(kNaiveSide, kNaiveSide));
  with_type(g.dtype, [&]<class T>(TypeTag<T>) { launch<matmul_naive<T>>(c, g, g.batches()); });
  if (g.row_sum) launch_row_sums(g, l);
}

const char* naive_why_not(const MatmulArgs& g) {
  switch (g.dtype) {
    case DType::f64:
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::i64:
    case DType::i32:
      return nullptr;
    default:
      return "takes f64, f32, f16, bf16, i64 and i32 only";
  }
}

}  // namespace

void add_parts(const MatmulArgs& g, const KParts& parts, const Launch& l) {
  const i64 threads = g.m * (parts.pitch / 4) + (g.row_sum ? g.m : 0);
  const i64 batches = g.batches();
  const Config c{
      .grid = dim3(tiles(threads, kAddThreads), 1, unsigned(batches < 65535 ? batches : 65535)),
      .block = kAddThreads,
      .stream = l.stream,
      .op_name = l.op ? l.op->name : nullptr};
  with_float(g.dtype, [&]<class T>(TypeTag<T>) {
    launch<matmul_add_parts<T>>(c, g, parts, batches, packs_aligned(g, 4));
  });
}

namespace {

void split_k(const MatmulArgs& g, const Launch& l) {
  const KParts parts = parts_in<kSplitSide>(g, l);
  if (g.dtype == DType::f32)
    launch_tiled<float, kSplitSide>(g, l, parts);
  else
    tensor_core_parts(g, l, parts);
  add_parts(g, parts, l);
}

const char* split_k_why_not(const MatmulArgs& g) {
  const char* why = g.dtype == DType::f32 ? nullptr : tensor_core_why_not(g);
  return why ? "takes f32, and what tensor_core takes" : why_not_split(g);
}
const char* split_k_why_not_on(const MatmulArgs& g, const DeviceLimits& d) {
  return g.dtype == DType::f32 ? nullptr : tensor_core_why_not_on(g, d);
}
// From four parts on. By then the blocks of one kernel would be a half of the processors, and its k
// 1024; with fewer parts the second kernel may cost what they save, which a `wt tune` can tell.
int split_k_rank(const MatmulArgs& g) {
  const int count = parts_of(g, kSplitSide).count;
  return count >= 4 ? 55 : count > 1 ? 5 : 0;
}

const char* tiled_why_not(const MatmulArgs& g) {
  return g.dtype == DType::f32 || is_half(g.dtype) ? nullptr : "takes f32, f16 and bf16 only";
}
// A tile of 64 by 64 is mostly idle on less than this.
int tiled_rank(const MatmulArgs& g) {
  // m = n = k = 32 fills a quarter of a 64 x 64 tile; naive's four blocks of 16 x 16 waste nothing.
  return double(g.m) * double(g.n) * double(g.k) <= 32 * 32 * 32 ? 0 : 30;
}
int tensor_core_rank(const MatmulArgs& g) { return tiled_rank(g) ? 50 : 0; }
// Below tensor_core, which takes the same: no GPU has shown yet that it is the faster of the two,
// so it is chosen by name, or by `wt tune` on a GPU where it is.
int pipelined_rank(const MatmulArgs& g) { return tiled_rank(g) ? 40 : 0; }
// Below all others: neither its fences nor its descriptors have met a GPU, so nobody gets it who
// has not named it, or whose `wt tune` has found it right and fast.
int hopper_rank(const MatmulArgs&) { return 0; }

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, matmul, MatmulArgs,
#if defined(__CUDACC__)
    {.name = "vendor",
     .rank = 100,
     .why_not = matmul_vendor_why_not,
     .workspace = matmul_vendor_workspace,
     .launch = matmul_vendor},
    // The same, with row sums and activations by cuBLASLt's epilogues where it has them. Below
    // `vendor`, which has kernels of our own for them, until `wt tune` on a GPU finds it right and
    // the faster one.
    {.name = "vendor_epilogues",
     .rank = 90,
     .why_not = matmul_vendor_why_not,
     .workspace = matmul_vendor_workspace,
     .launch = matmul_vendor_epilogues},
#endif
    {.name = "split_k",
     .rank = 55,
     .why_not = split_k_why_not,
     .why_not_on = split_k_why_not_on,
     .rank_of = split_k_rank,
     .workspace = split_workspace<kSplitSide>,
     .launch = split_k},
    {.name = "tensor_core",
     .rank = 50,
     .why_not = tensor_core_why_not,
     .why_not_on = tensor_core_why_not_on,
     .rank_of = tensor_core_rank,
     .launch = tensor_core},
    {.name = "pipelined",
     .rank = 40,
     .why_not = tensor_core_why_not,
     .why_not_on = pipelined_why_not_on,
     .rank_of = pipelined_rank,
     .launch = pipelined},
    // Below split_k, as pipelined is below tensor_core.
    {.name = "pipelined_split_k",
     .rank = 35,
     .why_not = pipelined_split_k_why_not,
     .why_not_on = pipelined_why_not_on,
     .rank_of = pipelined_split_k_rank,
     .workspace = split_workspace<LargeMma::kRows>,
     .launch = pipelined_split_k},
    {.name = "tiled", .rank = 30, .why_not = tiled_why_not, .rank_of = tiled_rank, .launch = tiled},
    {.name = "hopper",
     .rank = 1,
     .why_not = hopper_why_not,
     .why_not_on = hopper_why_not_on,
     .rank_of = hopper_rank,
     .launch = hopper},
    {.name = "naive", .rank = 1, .why_not = naive_why_not, .launch = naive});

}  // namespace wt
