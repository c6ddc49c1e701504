// Right and wrong kernels for sum, of rows. "REJECT variant kind" as in softmax_bad.cu; the others
// have to pass.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/reduce.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

const char* of_rows(const SumArgs& a) {
  if (a.in.ndim() != 2 || a.mask != 2) return "other axes than the last of two";
  if (a.f.divide_by != 1 || a.f.accumulate) return "means";
  return plain_f32(a.in) && plain_f32(a.out) ? nullptr : "anything but contiguous f32";
}
const char* of_rows_and_means(const SumArgs& a) {
  SumArgs sums = a;
  sums.f.divide_by = 1;
  return of_rows(sums);
}

// Pairs of neighbours, then pairs of these, in a thread that has its own stack for them.
__global__ void pairwise(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float level[32];
  unsigned there = 0;
  for (int i = 0; i < n; ++i) {
    float s = x[r * n + i];
    int k = 0;
    for (; there >> k & 1; ++k) s += level[k];
    there = (there | 1u << k) & ~((1u << k) - 1);
    level[k] = s;
  }
  float all = 0;
  for (int k = 0; k < 32; ++k)
    if (there >> k & 1) all += level[k];
  out[r] = all;
}
// A half of a warp a row: shuffles stay within it.
__global__ void half_warps(float* out, const float* x, int rows, int n) {
  const int lane = int(threadIdx.x) % 16, r = int(blockIdx.x) * 4 + int(threadIdx.x) / 16;
  float s = 0;
  for (int i = lane; r < rows && i < n; i += 16) s += x[r * n + i];
  for (int d = 8; d; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
  if (lane == 0 && r < rows) out[r] = s;
}

// REJECT first_thousand values
__global__ void first_thousand(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float s = 0;
  for (int i = 0; i < n && i < 1024; ++i) s += x[r * n + i];
  out[r] = s;
}
// REJECT last_left_out values
__global__ void last_left_out(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float s = 0;
  for (int i = 0; i < n - (n > 2000); ++i) s += x[r * n + i];
  out[r] = s;
}
// REJECT nan_as_zero nan
__global__ void nan_as_zero(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float s = 0;
  for (int i = 0; i < n; ++i) s += isnan(x[r * n + i]) ? 0 : x[r * n + i];
  out[r] = s;
}
// REJECT adds_to_out values
__global__ void adds_to_out(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = 0; r < rows && i < n; ++i) out[r] += x[r * n + i];
}
// REJECT goes_on values
__global__ void goes_on(float* out, const float* x, int rows, int n) {
  float s = 0;
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < n; ++i) s += x[r * n + i];
    out[r] = s;
  }
}
// REJECT by_lanes race
__global__ void by_lanes(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x);
  if (threadIdx.x == 0) out[r] = 0;
  for (int i = int(threadIdx.x); i < n; i += 32) atomicAdd(&out[r], x[r * n + i]);  // BUG by_lanes
  (void)rows;
}

template <auto Kernel, int RowsPerBlock = 32, int Threads = 32>
void simply(const SumArgs& a, const Launch& l) {
  const int rows = int(a.in.size(0));
  launch<Kernel>(grid(l, blocks_for(rows, RowsPerBlock), Threads), a.out.as<float>(),
                 a.in.as<const float>(), rows, int(a.in.size(1)));
}

}  // namespace
}  // namespace WT_DEVICE_NS

// REJECT forgets_means values
WT_VARIANTS(WT_DEVICE_NS, sum, SumArgs,
            {.name = "pairwise", .why_not = of_rows, .launch = simply<pairwise>},
            {.name = "half_warps", .why_not = of_rows, .launch = simply<half_warps, 4, 64>},
            {.name = "first_thousand", .why_not = of_rows, .launch = simply<first_thousand>},
            {.name = "last_left_out", .why_not = of_rows, .launch = simply<last_left_out>},
            {.name = "nan_as_zero", .why_not = of_rows, .launch = simply<nan_as_zero>},
            {.name = "adds_to_out", .why_not = of_rows, .launch = simply<adds_to_out>},
            {.name = "goes_on", .why_not = of_rows, .launch = simply<goes_on, 1 << 20, 1>},
            {.name = "by_lanes", .why_not = of_rows, .launch = simply<by_lanes, 1, 32>},
            {.name = "forgets_means", .why_not = of_rows_and_means, .launch = simply<pairwise>});

}  // namespace wt
