// The floating types of kernels: what they are stored as, and what they are computed in.
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
