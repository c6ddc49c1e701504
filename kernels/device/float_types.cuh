// The floating types of kernels: what they are stored as, and what they are computed in.
#pragma once
#include "warptape/core/dtype.h"
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {

// What arithmetic on a stored type is done in: float for 16-bit floats, else itself. A
// sum of ones in f16 would stop at 2048 and in bf16 at 256, where the next one is half a last bit.
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
// Each type is an instantiation of the kernel, which costs compile time and binary: f64, which
// training does not use, is left out of all rungs but the first.
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
// The same with f64: two registers a value, and half the rate of f32 on an H100, a 64th on a
// GeForce.
template <class F>
inline bool with_float_or_double(DType t, F f) {
  if (t != DType::f64) return with_float(t, f);
  f(TypeTag<double>{});
  return true;
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
