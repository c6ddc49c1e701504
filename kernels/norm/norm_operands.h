// The operands of a normalisation of rows, for all contracts of kernels/layer_norm.h, rms_norm.h
// and add_norm.h. No STL: device code includes this.
#pragma once
#include "warptape/kernels/common/rows.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

template <int N>
struct NormOperands {
  RowOperand at[N];
};

// Those that Args has of, in this order: Y, X, Residual, Sum forward; GX, GY, X, GSum backward; and
// GY, X where the gradients are those of the parameters.
template <class Args>
auto norm_operands(const Args& a) {
  if constexpr (requires { a.residual; })
    return NormOperands<4>{{{a.y}, {a.x}, {a.residual}, {a.sum}}};
  else if constexpr (requires { a.y; })
    return NormOperands<2>{{{a.y}, {a.x}}};
  else if constexpr (requires { a.gsum; })
    return NormOperands<4>{{{a.gx}, {a.gy}, {a.x}, {a.gsum}}};
  else if constexpr (requires { a.gx; })
    return NormOperands<3>{{{a.gx}, {a.gy}, {a.x}}};
  else
    return NormOperands<2>{{{a.gy}, {a.x}}};
}
template <class Args>
auto norm_rows(const Args& a) {
  return rows_along(a.x.ndim() - 1, norm_operands(a).at);
}

// What rounding left of sum = a + b, where b is small beside a (Dekker 1971): a mean is saved as
// the two of them, as it may be much larger than the distances from it.
template <class A>
WT_HD A left_of_sum(A a, A b, A sum) {
  return (a - sum) + b;
}

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
