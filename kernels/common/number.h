// A number written as an element of a dtype, on the host; kernels/device/number.cuh is the
// device's.
#pragma once
#include "warptape/core/dtype.h"
#include "warptape/core/half.h"

namespace wt {

// Element i, of a floating dtype that computes.
inline double number(DType t, const void* in, i64 i) {
  switch (t) {
    case DType::f64:
      return static_cast<const double*>(in)[i];
    case DType::f32:
      return static_cast<const float*>(in)[i];
    case DType::f16:
      return float(static_cast<const Half*>(in)[i]);
    default:
      return float(static_cast<const BFloat16*>(in)[i]);
  }
}

template <class S, class V>
inline void put_as(void* out, i64 i, V v) {
  static_cast<S*>(out)[i] = S(v);
}
template <class V>
inline void put(DType t, void* out, i64 i, V v) {
  switch (t) {
    case DType::f64:
      return put_as<double>(out, i, v);
    case DType::f32:
      return put_as<float>(out, i, v);
    case DType::f16:
      return put_as<Half>(out, i, float(v));
    case DType::bf16:
      return put_as<BFloat16>(out, i, float(v));
    default:
      break;
  }
  // Integers, which may come as numbers.
  const i64 n = i64(v);
  if (t == DType::boolean) return put_as<bool>(out, i, n);
  switch (item_size(t)) {
    case 8:
      return put_as<i64>(out, i, n);
    case 4:
      return put_as<i32>(out, i, n);
    case 2:
      return put_as<i16>(out, i, n);
    default:
      return put_as<i8>(out, i, n);
  }
}

}  // namespace wt
