// Layer normalisation on simt and cuda, its gradients. That of the input has the forward's ladder
// (kernels/norm/layer_norm.cuh); those of the parameters, which are sums over columns:
//   naive    one thread a column, row after row
//   columns  a block takes 32 packs of columns and a part of the rows, a second kernel adds the
//            parts: the order of the additions is fixed
#include "warptape/kernels/layer_norm.h"

#include "warptape/kernels/norm/layer_norm_gradient.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct NormBackwardInput : NormGradientRows<T, LayerNormGradient, false> {};

// --- gradients of the parameters: naive ---

template <class T>
struct NormBackwardParams {
  enum { GY, X };  // the operands of `rows`
  Rows<2> rows;
  T *gweight, *gbias;
  const T *gy, *x;
  const ComputeType<T>* stats;
  bool accumulate_weight, accumulate_bias;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gweight), f(gbias), f(gy), f(x), f(stats);
  }
};

template <class T>
__global__ void __launch_bounds__(64) layer_norm_backward_params_naive(NormBackwardParams<T> a) {
  using A = ComputeType<T>;
  const i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.rows.length) return;
  A weight_sum = 0, bias_sum = 0;
  for (i64 row = 0; row < a.rows.count; ++row) {
    // Here neighbouring threads have neighbouring columns, so a warp's load is 128 bytes in a row
    // (f32). But rows follow one another, and a layer of 768 columns is only 12 blocks.
    const A gy = A(a.rows.row(a.GY, a.gy, row)[i]);
    const A x = A(a.rows.row(a.X, a.x, row)[i]);
    weight_sum +=
        gy * ((x - a.stats[row] - a.stats[a.rows.count + row]) * a.stats[2 * a.rows.count + row]);
    bias_sum += gy;
  }
  if (a.gweight) a.gweight[i] = T(a.accumulate_weight ? A(a.gweight[i]) + weight_sum : weight_sum);
  if (a.gbias) a.gbias[i] = T(a.accumulate_bias ? A(a.gbias[i]) + bias_sum : bias_sum);
}

// --- columns ---

constexpr int kRowWarps = 8;  // rows at a time

// Block (x, y) adds up part y of the rows for 32 * Vec columns: parts[y][weight, bias][column].
// Vec = kPerPack<T>: every row begins at a 16-byte boundary; Vec = 1: any rows.
template <class T, int Vec>
__global__ void __launch_bounds__(kRowWarps * 32)
    layer_norm_columns(NormBackwardParams<T> a, float* parts) {
  // Lanes last: a warp writes 32 banks, whatever Vec is. It reads Vec columns of 32 / Vec lanes,
  // for which a row is that much longer than 32. 10 KiB of it for f32, 18 for 16-bit types.
  WT_SHARED(float, tile, [kRowWarps][2][Vec][Vec == 1 ? 32 : 32 + 32 / Vec]);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const i64 n = a.rows.length, column = (i64(blockIdx.x) * 32 + lane) * Vec;
  // Rows are divided over gridDim.y parts, because columns alone are too few: 768 of them in f32
  // are 6 blocks.
  const i64 each = (a.rows.count + gridDim.y - 1) / gridDim.y, begin = each * blockIdx.y;
  const i64 end = begin + each < a.rows.count ? begin + each : a.rows.count;
  float weight_sum[Vec] = {}, bias_sum[Vec] = {};
  // A warp takes every eighth row. Two rows at once: four loads of 16 bytes a lane are under way
  // before the first is needed.
#pragma unroll 2
  for (i64 row = begin + warp; row < end; row += kRowWarps) {
    const auto gy = a.rows.row(a.GY, a.gy, row);
    const auto x = a.rows.row(a.X, a.x, row);
    // One address for all lanes: a transaction of 32 bytes, not 32 of them.
    const float mean = a.stats[row], rest = a.stats[a.rows.count + row];
    const float rstd = a.stats[2 * a.rows.count + row];
    const auto add = [&](int j, float g, float v) WT_INLINE_LAMBDA {
      weight_sum[j] += g * ((v - mean - rest) * rstd);
      bias_sum[j] += g;
    };
    if (Vec > 1 && column + Vec <= n) {
      const auto g = vload<Pack16<T>>(gy.data + column), v = vload<Pack16<T>>(x.data + column);
#pragma unroll
      for (int j = 0; j < Vec; ++j)
        add(j, float(g.v[j % kPerPack<T>]), float(v.v[j % kPerPack<T>]));
    } else {
#pragma unroll
      for (int j = 0; j < Vec; ++j)
        if (column + j < n) add(j, float(gy[column + j]), float(x[column + j]));
    }
  }
#pragma unroll
  for (int j = 0; j < Vec; ++j) {
    tile[warp][0][j][lane] = weight_sum[j];
    tile[warp][1][j][lane] = bias_sum[j];
  }
  // The tile is read across warps from here on: without the barrier a fast warp would add up what a
  // slow one has not written yet, now and then, and never under a debugger.
  __syncthreads();
  for (int i = int(threadIdx.x); i < 2 * 32 * Vec; i += kRowWarps * 32) {
    // Neighbouring threads take neighbouring columns, so that the writes to `parts` are in a row.
    const int which = i / (32 * Vec), j = i % Vec, from = i / Vec % 32;
    const i64 to = (i64(blockIdx.x) * 32 + from) * Vec + j;
    float sum = 0;
    // In the order of the warps. An atomicAdd would need no tile and no barrier, and would add in
    // the order in which warps happen to arrive: other bits at every run.
    for (int w = 0; w < kRowWarps; ++w) sum += tile[w][which][j][from];
    if (to < n) parts[(i64(blockIdx.y) * 2 + which) * n + to] = sum;
  }
}

// blockIdx.y: 0 the weight, 1 the bias.
template <class T>
__global__ void __launch_bounds__(kRowWarps * 32)
    layer_norm_parts(NormBackwardParams<T> a, const float* parts, int count) {
  WT_SHARED(float, tile, [kRowWarps][32]);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, which = int(blockIdx.y);
  const i64 n = a.rows.length, column = i64(blockIdx.x) * 32 + lane;
  float sum = 0;
  if (column < n)
    // Eight warps share the parts of 32 columns; neighbouring lanes read neighbouring columns.
    for (int p = warp; p < count; p += kRowWarps) sum += parts[(i64(p) * 2 + which) * n + column];
  tile[warp][lane] = sum;
  // By lanes without a column as well: a barrier that some threads of a block never reach is one
  // where the others may wait for ever. They leave after it.
  __syncthreads();
  T* out = which ? a.gbias : a.gweight;
  if (warp != 0 || column >= n || !out) return;
  // `sum` is warp 0's own part. `out` is the leaf's gradient itself where it accumulates: no pass
  // more.
  for (int w = 1; w < kRowWarps; ++w) sum += tile[w][lane];
  const bool accumulate = which ? a.accumulate_bias : a.accumulate_weight;
  out[column] = T(accumulate ? float(out[column]) + sum : sum);
}

// --- choice and launch ---

constexpr i64 kBlocksWanted = 528;  // of the columns rung: four for each processor of an H100
constexpr i64 kPartsMax = 256, kPartRows = 4 * kRowWarps;

template <class T>
NormBackwardParams<T> kernel_args(const LayerNormBackwardParamsArgs& a) {
  return {norm_rows(a),        a.gweight.as<T>(), a.gbias.as<T>(),
          a.gy.as<const T>(),  a.x.as<const T>(), a.stats.as<const ComputeType<T>>(),
          a.accumulate_weight, a.accumulate_bias};
}

inline void launch_naive(const LayerNormBackwardParamsArgs& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a);
    launch<layer_norm_backward_params_naive<T>>(grid_of(l, ceil_div(k.rows.length, 64), 64), k);
  });
}

// How the columns rung divides its work: elements a thread loads at once, and parts of the rows.
struct ColumnPlan {
  int vec, parts;
};
ColumnPlan plan_columns(const LayerNormBackwardParamsArgs& a) {
  const auto rows = norm_rows(a);
  const int pack = 16 / int(item_size(a.x.dtype()));
  const bool packs = unit_steps(rows) && rows_aligned(rows, {a.gy.data, a.x.data}, pack);
  const int vec = packs ? pack : 1;
  // Enough blocks to fill the machine, but at least 32 rows a part: each part costs a write and a
  // read of two floats a column.
  const i64 wide = ceil_div(rows.length, 32 * vec), most = ceil_div(rows.count, kPartRows);
  i64 parts = wide ? ceil_div(kBlocksWanted, wide) : 1;
  if (parts > most) parts = most;
  return {vec, int(parts < 1 ? 1 : parts > kPartsMax ? kPartsMax : parts)};
}
i64 columns_workspace(const LayerNormBackwardParamsArgs& a) {
  return plan_columns(a).parts * 2 * norm_rows(a).length * i64(sizeof(float));
}
void launch_columns(const LayerNormBackwardParamsArgs& a, const Launch& l) {
  const ColumnPlan plan = plan_columns(a);
  auto* parts = static_cast<float*>(l.workspace);
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a);
    Config c = grid_of(l, ceil_div(k.rows.length, 32 * plan.vec), kRowWarps * 32);
    c.grid.y = unsigned(plan.parts);
    if (plan.vec > 1)
      launch<layer_norm_columns<T, kPerPack<T>>>(c, k, parts);
    else
      launch<layer_norm_columns<T, 1>>(c, k, parts);
    c = grid_of(l, ceil_div(k.rows.length, 32), kRowWarps * 32);
    c.grid.y = 2;
    launch<layer_norm_parts<T>>(c, k, parts, plan.parts);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, layer_norm_backward_input, LayerNormBackwardInputArgs,
            WT_LAYER_NORM_LADDER(NormBackwardInput, LayerNormBackwardInputArgs));
WT_VARIANTS(WT_DEVICE_NS, layer_norm_backward_params, LayerNormBackwardParamsArgs,
            {.name = "columns",
             .rank = 20,
             .why_not = not_double<LayerNormBackwardParamsArgs>,
             .workspace = columns_workspace,
             .launch = launch_columns},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
