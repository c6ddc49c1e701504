// The floating types of kernels: what they are stored as, and what they are computed in.
#pragma once
#include "warptape/core/dtype.h"
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {

// What arithmetic on a stored type is done in: float for 16-bit floats, else itself.
template <class S>
struct ComputeTypeOf {
  using type = S;
};
template <>
struct ComputeTypeOf<__half> {
  using type = float;
};
template <>
struct ComputeTypeOf<__nv_bfloat16> {
  using type = float;
};
template <class S>
using ComputeType = typename ComputeTypeOf<S>::type;

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
