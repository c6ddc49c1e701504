// Types that cpu reference kernels compute in, and the switch over them.
#pragma once
#include <type_traits>

#include "warptape/core/dtype.h"
#include "warptape/core/half.h"

namespace wt {

// f64 accumulates in itself, the rest in f32.
template <class T>
using CpuAccumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls f(T{}) for the C++ type of a computing floating dtype; nothing for other dtypes.
template <class F>
void with_cpu_float(DType t, F f) {
  switch (t) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::f16:
      return f(Half{});
    case DType::bf16:
      return f(BFloat16{});
    default:
      return;
  }
}

}  // namespace wt
