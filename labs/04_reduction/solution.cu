// Lab 4, a solution.
#include "warptape/kernels/simt/simt.h"
//
#include "warptape/kernels/reduce.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

// --- what the variants take: nothing to do here ---
const char* of_f32(const SumArgs& a) {
  if (a.f.divide_by != 1 || a.f.accumulate) return "means";
  return a.in.dtype() == DType::f32 && a.in.dense() && a.out.dtype() == DType::f32 && a.out.dense()
             ? nullptr
             : "anything but contiguous f32";
}
const char* not_all(const SumArgs& a) {
  return a.mask == (1u << a.in.ndim()) - 1 ? of_f32(a) : "some axes alone";
}
const char* not_rows(const SumArgs& a) {
  return a.in.ndim() == 2 && a.mask == 2 ? of_f32(a) : "other axes than the last of two";
}
Config grid(const Launch& l, int blocks, int threads) {
  return {.grid = unsigned(blocks),
          .block = unsigned(threads),
          .stream = l.stream,
          .op_name = l.op->name};
}

// All lanes of a warp get the sum of what they give, in an order that never changes.
__device__ float sum_of_warp(float s) {
  for (int d = 16; d; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
  return s;
}
// Thread 0 gets the sum of what the threads of a block give.
__device__ float sum_of_block(float s) {
  WT_SHARED(float, warps, [kThreads / 32]);
  s = sum_of_warp(s);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x >= 32) return 0;
  return sum_of_warp(threadIdx.x < kThreads / 32 ? warps[threadIdx.x] : 0);
}

// --- 1: all elements, by atomicAdd, in whatever order the hardware likes ---
__global__ void zero(float* out) { *out = 0; }
// One atomic a warp: 32 threads that add to one address wait for each other.
__global__ void atomics(float* out, const float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  const float s = sum_of_warp(i < n ? x[i] : 0);
  if (threadIdx.x % 32 == 0) atomicAdd(out, s);
}
void launch_atomics(const SumArgs& a, const Launch& l) {
  const int n = int(a.in.numel());
  launch<zero>(grid(l, 1, 1), a.out.as<float>());
  launch<atomics>(grid(l, (n + kThreads - 1) / kThreads, kThreads), a.out.as<float>(),
                  a.in.as<const float>(), n);
}

// --- 2: all elements in two launches, with the same bits every time ---
__global__ void sum_blocks(float* parts, const float* x, int n) {
  float s = 0;
  const int step = int(gridDim.x * blockDim.x);
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += step) s += x[i];
  s = sum_of_block(s);
  if (threadIdx.x == 0) parts[blockIdx.x] = s;
}
__global__ void sum_parts(float* out, const float* parts, int n) {
  const float s = sum_of_warp(int(threadIdx.x) < n ? parts[threadIdx.x] : 0);
  if (threadIdx.x == 0) *out = s;
}
constexpr int kParts = 4;  // few: each has sums that a single lane writes
i64 parts_bytes(const SumArgs&) { return kParts * i64(sizeof(float)); }
void launch_two_stages(const SumArgs& a, const Launch& l) {
  float* const parts = static_cast<float*>(l.workspace);  // parts_bytes() of device memory
  launch<sum_blocks>(grid(l, kParts, kThreads), parts, a.in.as<const float>(), int(a.in.numel()));
  launch<sum_parts>(grid(l, 1, 32), a.out.as<float>(), static_cast<const float*>(parts), kParts);
}

// --- 3: each row of a matrix ---
__global__ void rows(float* out, const float* x, int count, int columns) {
  const int row = int(blockIdx.x);
  float s = 0;
  for (int i = int(threadIdx.x); i < columns; i += 32) s += x[i64(row) * columns + i];
  s = sum_of_warp(s);
  if (threadIdx.x == 0) out[row] = s;
}
void launch_rows(const SumArgs& a, const Launch& l) {
  const int count = int(a.in.size(0)), columns = int(a.in.size(1));
  launch<rows>(grid(l, count, 32), a.out.as<float>(), a.in.as<const float>(), count, columns);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, sum, SumArgs,
    {.name = "atomics", .why_not = not_all, .launch = launch_atomics, .deterministic = false},
    {.name = "two_stages",
     .why_not = not_all,
     .workspace = parts_bytes,
     .launch = launch_two_stages},
    {.name = "rows", .why_not = not_rows, .launch = launch_rows});

}  // namespace wt
