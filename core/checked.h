// The arithmetic of sizes, strides and offsets that come from outside: arguments, labels, files.
// Nothing else tests for overflow. No STL: device code includes this.
#pragma once
#include "warptape/core/types.h"

namespace wt {

// r = a * b and r = a + b. False: the result does not fit, and r is not to be used.
template <class T>
[[nodiscard]] constexpr bool mul_fits(T a, T b, T& r) {
  return !__builtin_mul_overflow(a, b, &r);
}
template <class T>
[[nodiscard]] constexpr bool add_fits(T a, T b, T& r) {
  return !__builtin_add_overflow(a, b, &r);
}

// The product of the sizes that are not 0. Where it fits, so does every stride of that shape: what
// all tensors keep to, also those without elements.
[[nodiscard]] constexpr bool extent_fits(const i64* sizes, int n, i64& extent) {
  extent = 1;
  for (int i = 0; i < n; ++i)
    if (sizes[i] != 0 && !mul_fits(extent, sizes[i], extent)) return false;
  return true;
}

// The product without a test, for shapes that were tested before: a 0 among the sizes may come
// after factors whose product does not fit.
constexpr i64 wrapped_mul(i64 a, i64 b) { return i64(u64(a) * u64(b)); }

}  // namespace wt
