// Numbers as elements of a dtype that is known when the kernel runs: where all threads have the
// same one, the branch costs less than a kernel for each.
#pragma once
#include "warptape/core/dtype.h"
#include "warptape/kernels/device/float_types.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Element i, of a floating dtype that computes.
__device__ __forceinline__ double number(DType t, const void* in, i64 i) {
  switch (t) {
    case DType::f64:
      return static_cast<const double*>(in)[i];
    case DType::f32:
      return static_cast<const float*>(in)[i];
    case DType::f16:
      return float(static_cast<const __half*>(in)[i]);
    default:
      return float(static_cast<const __nv_bfloat16*>(in)[i]);
  }
}

template <class S, class V>
__device__ __forceinline__ void put_as(void* out, i64 i, V v) {
  static_cast<S*>(out)[i] = S(v);
}
// v: double or i64. Integers are cut as C++ does, whose signed and unsigned bits are the same.
template <class V>
__device__ __forceinline__ void put(DType t, void* out, i64 i, V v) {
  switch (t) {
    case DType::f64:
      return put_as<double>(out, i, v);
    case DType::f32:
      return put_as<float>(out, i, v);
    case DType::f16:
      return put_as<__half>(out, i, float(v));
    case DType::bf16:
      return put_as<__nv_bfloat16>(out, i, float(v));
    case DType::boolean:
      return put_as<u8>(out, i, v != V(0));
    case DType::i64:
    case DType::u64:
      return put_as<i64>(out, i, v);
    case DType::i32:
    case DType::u32:
      return put_as<i32>(out, i, i64(v));
    case DType::i16:
    case DType::u16:
      return put_as<i16>(out, i, i64(v));
    default:
      return put_as<i8>(out, i, i64(v));
  }
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
