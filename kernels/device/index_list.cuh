// What kernels that read by index share.
#pragma once
#include "warptape/kernels/device/float_types.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {

// Indices of either width.
struct IndexList {
  const void* at;
  bool wide;  // i64, else i32
  __device__ __forceinline__ i64 operator[](i64 i) const {
    // The same way for all threads, so a select beside the load; a kernel per width would double
    // the code.
    return wide ? static_cast<const i64*>(at)[i] : i64(static_cast<const i32*>(at)[i]);
  }
};

// Calls f(TypeTag<U>{}) for the unsigned type of the elements' size.
template <class F>
inline void with_unit(i64 item, F f) {
  switch (item) {
    case 1:
      return f(TypeTag<u8>{});
    case 2:
      return f(TypeTag<u16>{});
    case 4:
      return f(TypeTag<u32>{});
    default:
      return f(TypeTag<u64>{});
  }
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
