// The names that the formulas of kernels/pointwise.h use, for scalars. The same names exist for
// tensors (autograd/ops.h); a template finds those by argument-dependent lookup. No STL.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt::pw {

template <class T>
WT_HD constexpr bool gt(T a, double b) {
  return a > T(b);
}
template <class T>
WT_HD constexpr T where(bool c, T a, T b) {
  return c ? a : b;
}
template <class T>
WT_HD constexpr T zero_like(T) {
  return T(0);
}

}  // namespace wt::pw
