// From a run-time dtype to a C++ type, for cpu kernels.
#pragma once
#include <type_traits>
#include <utility>

#include "warptape/core/dtype.h"
#include "warptape/core/error.h"
#include "warptape/core/half.h"

namespace wt {

// What arithmetic on a stored type is done in: float for 16-bit floats, else itself.
template <class S>
using ComputeType =
    std::conditional_t<std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>, float, S>;

// Calls f.template operator()<S>() with the storage type of a floating dtype.
template <class F>
decltype(auto) dispatch_floating(DType t, F&& f) {
  switch (t) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::f16:
      return f.template operator()<Half>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    default:
      throw InternalError(str("not a floating dtype: ", dtype_name(t)));
  }
}

// The same for every computing dtype.
template <class F>
decltype(auto) dispatch_compute(DType t, F&& f) {
  switch (t) {
    case DType::i64:
      return f.template operator()<i64>();
    case DType::i32:
      return f.template operator()<i32>();
    case DType::u8:
      return f.template operator()<u8>();
    case DType::boolean:
      return f.template operator()<bool>();
    default:
      return dispatch_floating(t, std::forward<F>(f));
  }
}

}  // namespace wt
