// Matrix product on simt and cuda: one thread an element (naive), tiles in shared memory with
// register blocking (tiled), and the list of variants. device/matmul_mma.cuh has the tensor-core
// rung, device/matmul_pipelined.cuh the same with a pipeline of asynchronous copies;
// matmul_hopper.cu is Hopper's rung.
#include "warptape/kernels/device/matmul.cuh"
#include "warptape/kernels/device/matmul_mma.cuh"
#include "warptape/kernels/device/matmul_pipelined.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// --- naive: one thread an element, every operand read from global memory ---

constexpr int kNaiveSide = 16;

template <class T>
__device__ __forceinline__ void finish(T& to, typename MatmulSum<T>::type sum, bool accumulate) {
  using Sum = typename MatmulSum<T>::type;
  to = T(accumulate ? sum + Sum(to) : sum);
}

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
    if (g.bias) sum += Sum(static_cast<const T*>(g.bias)[j]);
    finish(x.out[i * g.out_row + j], sum, g.accumulate);
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

// --- tiled: a block makes Side x Side elements, a thread (Side / 16)^2 of them ---
// Both operands' tiles lie in shared memory as [p][x], x being the row of a or the column of b, so
// that a thread reads 4 neighbours at once. Two buffers: while one is multiplied, the next tile
// travels through registers, and a step costs one barrier.

constexpr int kTiledThreads = 256, kDepth = 16;

// The 4 floats more keep rows at 16-byte boundaries. A tile that is stored across its rows (four
// values of p by eight of x a warp) meets every bank twice; without the padding, four times.
template <int Side>
using SharedTile = float[kDepth][Side + 4];

// An operand as a tile loader sees it: element (p, x) lies at p * p_stride + x * x_stride.
struct TileSource {
  i64 p_stride, x_stride;
  bool vectors;  // groups of 4 along the unit stride are aligned
};

// One thread's share of a tile: groups of 4 neighbours along the axis with unit stride.
template <class T, int Side>
struct TileLoader {
  // Registers: 8 of each operand at Side 128, filled by loads that are still under way when the
  // multiplication of the tile before begins.
  static constexpr int kGroups = kDepth * Side / 4 / kTiledThreads;
  float v[kGroups][4];

  // Where group i of this thread begins.
  __device__ __forceinline__ static void place(bool along_x, int i, int& p, int& x) {
    const int n = int(threadIdx.x) + i * kTiledThreads;
    // Neighbouring threads take neighbouring groups of the axis that is contiguous in memory: of
    // f32 a warp reads runs of 512 or 256 bytes along x, of 64 bytes along p, whole sectors both.
    p = along_x ? n / (Side / 4) : n % (kDepth / 4) * 4;
    x = along_x ? n % (Side / 4) * 4 : n / (kDepth / 4);
  }
  // `from`: the tile's first element, p_left and x_left how far the operand reaches from it. What
  // lies outside is zero.
  __device__ __forceinline__ void load(const T* from, const TileSource& s, int p_left, int x_left) {
    const bool along_x = s.x_stride == 1;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      int p, x;
      place(along_x, i, p, x);
      const int left = along_x ? x_left - x : p_left - p;  // along the group
      const bool inside = along_x ? p < p_left : x < x_left;
      const T* at = from + p * s.p_stride + x * s.x_stride;
      if (inside && left >= 4 && s.vectors) {
        T four[4];
        load_vector<4>(four, at);
#pragma unroll
        for (int e = 0; e < 4; ++e) v[i][e] = float(four[e]);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) v[i][e] = inside && e < left ? float(at[e]) : 0.0f;
      }
    }
  }
  __device__ __forceinline__ void store(bool along_x, SharedTile<Side>& to) const {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      int p, x;
      place(along_x, i, p, x);
      if (along_x) {
        store_vector<4>(&to[p][x], v[i]);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) to[p + e][x] = v[i][e];
      }
    }
  }
};

// A thread's elements are groups of 4 rows and columns, Side / groups apart: neighbouring threads
// then read neighbouring banks.
template <int Side>
struct Blocking {
  // A warp has two values of `thread` for a's rows and 16 for b's columns: its 16-byte loads of b
  // are 256 neighbouring bytes, of a two addresses that are sent to 16 lanes each. Eight columns in
  // a row would be loads 32 bytes apart, and every bank asked for twice.
  static constexpr int kGroups = Side / 64, kEach = 4 * kGroups;
  __device__ __forceinline__ static int offset(int thread, int e) {
    return e / 4 * (Side / kGroups) + thread * 4 + e % 4;
  }
};

template <int Side>
__device__ __forceinline__ void multiply_tile(
    const SharedTile<Side>& a, const SharedTile<Side>& b, int ty, int tx,
    float (&sum)[Blocking<Side>::kEach][Blocking<Side>::kEach]) {
  constexpr int kGroups = Blocking<Side>::kGroups, kEach = Blocking<Side>::kEach;
#pragma unroll
  for (int p = 0; p < kDepth; ++p) {
    // At Side 128 four 16-byte loads, then 64 multiplications from registers: 4 a float that is
    // loaded, where naive has a half. Unrolled, because registers have no addresses: x[h] needs a
    // constant h.
    float x[kGroups][4], y[kGroups][4];
#pragma unroll
    for (int h = 0; h < kGroups; ++h) {
      load_vector<4>(x[h], &a[p][Blocking<Side>::offset(ty, 4 * h)]);
      load_vector<4>(y[h], &b[p][Blocking<Side>::offset(tx, 4 * h)]);
    }
#pragma unroll
    for (int r = 0; r < kEach; ++r)
#pragma unroll
      for (int c = 0; c < kEach; ++c) sum[r][c] += x[r / 4][r % 4] * y[c / 4][c % 4];
  }
}

template <class T, int Side>
__global__ void __launch_bounds__(kTiledThreads)
    matmul_tiled(const __grid_constant__ MatmulArgs g, i64 batches, bool a_vectors,
                 bool b_vectors) {
  constexpr int kEach = Blocking<Side>::kEach;
  WT_SHARED(SharedTile<Side>, a_tile, [2]);
  WT_SHARED(SharedTile<Side>, b_tile, [2]);
  const int tx = int(threadIdx.x) % 16, ty = int(threadIdx.x) / 16;
  const TilePlace place =
      tile_place(blockIdx.x, u32((g.m + Side - 1) / Side), u32((g.n + Side - 1) / Side));
  const i64 i0 = place.row * Side, j0 = place.column * Side;
  const bool sums_rows = g.row_sum && j0 == 0 && threadIdx.x < Side;
  const TileSource a_source{g.a_column, g.a_row, a_vectors};
  const TileSource b_source{g.b_row, g.b_column, b_vectors};

  for (i64 z = blockIdx.z; z < batches; z += gridDim.z) {
    const Matrices<T> x = matrices_at<T>(g, z);
    const T* a = x.a + i0 * g.a_row;
    const T* b = x.b + j0 * g.b_column;
    const int m_left = clamp_left(g.m - i0), n_left = clamp_left(g.n - j0);
    TileLoader<T, Side> a_next, b_next;
    float sum[kEach][kEach] = {};
    float row_sum = 0;
    a_next.load(a, a_source, clamp_left(g.k), m_left);
    b_next.load(b, b_source, clamp_left(g.k), n_left);
    int buffer = 0;
    for (i64 left = g.k; left > 0; left -= kDepth, buffer ^= 1) {
      a_next.store(g.a_row == 1, a_tile[buffer]);
      b_next.store(g.b_column == 1, b_tile[buffer]);
      // Without it, rows that another warp has yet to store would be multiplied. One barrier a step
      // is enough: this buffer is written again two steps on, and to get there every warp passes
      // the barrier between, after its last read here.
      __syncthreads();
      if (left > kDepth) {
        a += kDepth * g.a_column;
        b += kDepth * g.b_row;
        a_next.load(a, a_source, clamp_left(left - kDepth), m_left);
        b_next.load(b, b_source, clamp_left(left - kDepth), n_left);
      }
      multiply_tile<Side>(a_tile[buffer], b_tile[buffer], ty, tx, sum);
      if (sums_rows)
        for (int p = 0; p < kDepth; ++p) row_sum += a_tile[buffer][p][threadIdx.x];
    }
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      const i64 i = i0 + Blocking<Side>::offset(ty, r);
      if (i >= g.m) continue;
#pragma unroll
      for (int c = 0; c < kEach; ++c) {
        const i64 j = j0 + Blocking<Side>::offset(tx, c);
        if (j >= g.n) continue;
        const float bias = g.bias ? float(static_cast<const T*>(g.bias)[j]) : 0.0f;
        // One element a store: for a row and c the 16 threads of tx are four floats apart, but the
        // four of c .. c + 3 fill the sectors together.
        finish(x.out[i * g.out_row + j], sum[r][c] + bias, g.accumulate);
      }
    }
    if (sums_rows && i0 + threadIdx.x < g.m)
      finish(static_cast<T*>(g.row_sum)[i0 + threadIdx.x], row_sum, g.row_sum_accumulate);
    __syncthreads();  // the next batch index writes the first buffer again
  }
}

// Four neighbours along the contiguous axis can be read at once, wherever a row begins.
bool four_aligned(const MatmulArgs& g, const void* data, i64 lead, i64 MatmulArgs::Batch::*stride) {
  const i64 bytes = 4 * item_size(g.dtype);
  if (reinterpret_cast<uintptr_t>(data) % uintptr_t(bytes) != 0 || lead % 4 != 0) return false;
  for (int d = 0; d < g.batch_ndim; ++d)
    if (g.batch[d].*stride % 4 != 0) return false;
  return true;
}

template <class T, int Side>
void launch_tiled(const MatmulArgs& g, const Launch& l) {
  launch<matmul_tiled<T, Side>>(
      tile_grid(g, l, Side, Side, kTiledThreads), g, g.batches(),
      four_aligned(g, g.a, g.a_column == 1 ? g.a_row : g.a_column, &MatmulArgs::Batch::a),
      four_aligned(g, g.b, g.b_column == 1 ? g.b_row : g.b_column, &MatmulArgs::Batch::b));
}

template <class T>
void launch_tiled(const MatmulArgs& g, const Launch& l) {
  // Large tiles read each operand less often but need enough of them to fill the machine.
  // 64 tiles are half of an H100's 132 processors.
  if (double(tiles(g.m, 128)) * tiles(g.n, 128) * double(g.batches()) >= 64)
    launch_tiled<T, 128>(g, l);
  else
    launch_tiled<T, 64>(g, l);
}

void tiled(const MatmulArgs& g, const Launch& l) {
  with_float(g.dtype, [&]<class T>(TypeTag<T>) { launch_tiled<T>(g, l); });
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
    // The same, with row sums by cuBLASLt's epilogue where it makes them. Below `vendor`, which has
    // a kernel of our own for them, until `wt tune` on a GPU finds it right and the faster one.
    {.name = "vendor_sums",
     .rank = 90,
     .why_not = matmul_vendor_why_not,
     .workspace = matmul_vendor_workspace,
     .launch = matmul_vendor_sums},
#endif
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
    {.name = "tiled", .rank = 30, .why_not = tiled_why_not, .rank_of = tiled_rank, .launch = tiled},
    {.name = "hopper",
     .rank = 1,
     .why_not = hopper_why_not,
     .why_not_on = hopper_why_not_on,
     .rank_of = hopper_rank,
     .launch = hopper},
    {.name = "naive", .rank = 1, .why_not = naive_why_not, .launch = naive});

}  // namespace wt
