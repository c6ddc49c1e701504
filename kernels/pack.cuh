// Vector accesses and the types that kernels compute in.
#pragma once
#include "warptape/core/dtype.h"
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {

// What T's values are accumulated in: f64 for itself, f32 for the rest.
template <class T>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

// 16 bytes of T, moved by one instruction: vload<Pack<T>>(p), vstore(p, pack).
template <class T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / int(sizeof(T));
  T at[kSize];
};

// How a run of elements splits around 16-byte boundaries: `head` single elements, `packs` whole
// packs, and single elements again from `tail` on. Runs that do not begin at the same distance
// from a boundary, or whose elements are not neighbours, are all head.
struct PackSplit {
  i64 head, packs, tail;
};
template <class T>
__device__ __forceinline__ PackSplit split_into_packs(const T* a, const T* b, i64 n,
                                                      bool neighbours) {
  const auto pa = reinterpret_cast<uintptr_t>(a), pb = reinterpret_cast<uintptr_t>(b);
  if (!neighbours || ((pa ^ pb) & 15) != 0) return {n, 0, n};
  i64 head = i64((16 - (pa & 15)) & 15) / i64(sizeof(T));
  if (head > n) head = n;
  const i64 packs = (n - head) / Pack<T>::kSize;
  return {head, packs, head + packs * Pack<T>::kSize};
}

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) for the 16- and 32-bit floating types; false for any other dtype.
template <class F>
inline bool with_float(DType t, F f) {
  switch (t) {
    case DType::f32:
      f(TypeTag<float>{});
      return true;
    case DType::f16:
      f(TypeTag<__half>{});
      return true;
    case DType::bf16:
      f(TypeTag<__nv_bfloat16>{});
      return true;
    default:
      return false;
  }
}
// The same with f64.
template <class F>
inline bool with_float_or_double(DType t, F f) {
  if (t != DType::f64) return with_float(t, f);
  f(TypeTag<double>{});
  return true;
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
