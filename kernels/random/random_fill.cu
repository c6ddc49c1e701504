// Random numbers on simt and cuda, the bits of the cpu's: formulas in double whose every step is
// IEEE 754's (random/random_values.h).
//   naive     one thread an element
//   counters  one thread a counter of Philox, whose two or four elements it writes at once
#include "warptape/kernels/random_fill.h"

#include "warptape/core/numbers/narrow.h"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/number.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/random/random_values.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr i64 kThreads = 256;

struct RandomMemory {
  RandomValues values;
  void* out;
  DType dtype;
  i64 n;
  PhiloxKey key;
  u64 call;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out);
  }
};

__global__ void __launch_bounds__(kThreads) random_fill_naive(RandomMemory m) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  const u32 each = u32(m.values.each());
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < m.n; i += stride) {
    // A random number is a function of key, call and element: no state in memory, and no thread
    // needs another. But neighbours share a counter, whose ten rounds each of them computes.
    const u64 counter = u64(i) / each;  // 1, 2 or 4: the same for all
    const int k = int(u64(i) - counter * each);
    const PhiloxBlock b = philox(m.key, counter, m.call);
    if (m.values.whole())
      DeviceNumbers::put(m.dtype, m.out, i, m.values.integer(b, k));
    else
      DeviceNumbers::put(m.dtype, m.out, i, m.values.number(b, k));
  }
}

template <class T, int Each>
__device__ __forceinline__ void put_counter(const RandomMemory& m, const PhiloxBlock& b, i64 i) {
  T v[Each];
  // Of a pair of normal numbers the radius and the angle are computed once.
#pragma unroll
  for (int k = 0; k < Each; ++k) {
    const double x = m.values.number(b, k);
    if constexpr (sizeof(T) == 2 && Each == 2)
      v[k] = T(detail::before_narrowing(x));  // one rounding, as elsewhere
    else
      v[k] = T(ComputeType<T>(x));  // of four, the words' bits, all are exact
  }
  T* const out = static_cast<T*>(m.out) + i;
  if (i + Each <= m.n) return store_vector(out, v);
#pragma unroll
  for (int k = 0; k < Each; ++k)
    if (i + k < m.n) out[k] = v[k];
}

template <class T>
__global__ void __launch_bounds__(kThreads) random_fill_counters(RandomMemory m) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  const int each = m.values.each();
  for (i64 c = i64(blockIdx.x) * blockDim.x + threadIdx.x; c * each < m.n; c += stride) {
    const PhiloxBlock b = philox(m.key, u64(c), m.call);
    if (each == 4)
      put_counter<T, 4>(m, b, c * 4);
    else
      put_counter<T, 2>(m, b, c * 2);
  }
}

RandomMemory memory_of(const RandomFillArgs& a) {
  return {RandomValues(a), a.out.data, a.out.dtype(), a.out.numel(), a.key, a.call};
}

void launch_naive(const RandomFillArgs& a, const Launch& l) {
  launch<random_fill_naive>(grid_of(l, ceil_div(a.out.numel(), kThreads), kThreads), memory_of(a));
}
const char* why_not_counters(const RandomFillArgs& a) {
  const DType t = a.out.dtype();
  if (t != DType::f32 && t != DType::f16 && t != DType::bf16) return "f32, f16 and bf16 only";
  if (a.kind == RandomKind::integers) return "integers have the naive rung only";
  if (a.kind >= RandomKind::init_uniform) return "each element has a counter for itself";
  return aligned_16(a.out.data) ? nullptr : "the memory must begin at a 16-byte boundary";
}
void launch_counters(const RandomFillArgs& a, const Launch& l) {
  const RandomMemory m = memory_of(a);
  with_float(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<random_fill_counters<T>>(grid_of(l, ceil_div(m.n, kThreads * m.values.each()), kThreads),
                                    m);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, random_fill, RandomFillArgs,
    {.name = "counters", .rank = 20, .why_not = why_not_counters, .launch = launch_counters},
    {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
