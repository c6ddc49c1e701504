// Counts of binary exponents on simt and cuda.
//   naive   a thread a part, an addition to memory an element
//   shared  a block a part, counted beside the processor
#include "warptape/kernels/exponent_counts.h"

#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ void add_to(i64* counter, u32 n) {
  atomicAdd(reinterpret_cast<unsigned long long*>(counter), static_cast<unsigned long long>(n));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    count_naive_kernel(const T* x, const ExponentPart* parts, i64 part_count, i64* counts,
                       double factor) {
  const i64 k = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k >= part_count) return;
  const ExponentPart p = parts[k];
  i64* const row = counts + i64(p.row) * kExponentBins;
  // All threads of a row add to the few counters that most gradients are of, which lie in the
  // second-level cache: one addition after the other.
  for (i64 i = p.begin; i < p.begin + p.count; ++i)
    add_to(row + detail::exponent_bin(double(x[i]) * factor), 1);
}

// Most gradients of a parameter are of some ten exponents, so that lanes of a warp meet at one
// counter. Eight copies of each, in banks beside each other, leave at most four lanes at one.
constexpr int kCopies = 8;

template <class T>
__global__ void __launch_bounds__(kThreads)
    count_shared_kernel(const T* x, const ExponentPart* parts, i64* counts, double factor) {
  WT_SHARED(u32, own, [kExponentBins * kCopies]);
  for (int i = int(threadIdx.x); i < kExponentBins * kCopies; i += kThreads) own[i] = 0;
  const ExponentPart p = parts[blockIdx.x];
  __syncthreads();
  u32* const copy = own + threadIdx.x % kCopies;
  const T* const begin = x + p.begin;
  // Four loads under way before the first is counted.
  for (i32 i = i32(threadIdx.x); i < p.count; i += 4 * kThreads) {
    T v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = i + k * kThreads < p.count ? begin[i + k * kThreads] : T(0);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (i + k * kThreads < p.count)
        atomicAdd(copy + detail::exponent_bin(double(v[k]) * factor) * kCopies, 1u);
  }
  __syncthreads();
  i64* const row = counts + i64(p.row) * kExponentBins;
  for (int bin = int(threadIdx.x); bin < kExponentBins; bin += kThreads) {
    // From another copy each: lanes that all began at the first would meet in four banks.
    u32 sum = 0;
    for (int k = 0; k < kCopies; ++k) sum += own[bin * kCopies + (k + bin / 4) % kCopies];
    if (sum) add_to(row + bin, sum);
  }
}

template <class T>
void launch_naive(const ExponentCountsArgs& a, const Launch& l) {
  launch<count_naive_kernel<T>>(grid_of(l, ceil_div(a.part_count, kThreads), kThreads),
                                static_cast<const T*>(a.x), a.parts, a.part_count, a.counts,
                                a.factor);
}
template <class T>
void launch_shared(const ExponentCountsArgs& a, const Launch& l) {
  launch<count_shared_kernel<T>>(grid_of(l, a.part_count, kThreads), static_cast<const T*>(a.x),
                                 a.parts, a.counts, a.factor);
}
void count_naive(const ExponentCountsArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_naive<float>(a, l) : launch_naive<double>(a, l);
}
void count_shared(const ExponentCountsArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_shared<float>(a, l) : launch_shared<double>(a, l);
}

// A grid has 2^31 - 1 blocks, of 8192 elements each: more than there is memory.
const char* why_not(const ExponentCountsArgs& a) {
  if (a.part_count > 0x7fffffff) return "more parts than a grid has blocks";
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "elements must be f32 or f64";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, exponent_counts, ExponentCountsArgs,
            {.name = "shared", .rank = 10, .why_not = why_not, .launch = count_shared},
            {.name = "naive", .why_not = why_not, .launch = count_naive});

}  // namespace wt
