// What operators ask of their operands' dtypes. Internal.
#pragma once
#include "warptape/autograd/op_scope.h"

namespace wt::detail {

inline void require_computing(const OpScope& s) {
  if (!computes(s.dtype()))
    s.fail<DtypeError>(str(dtype_name(s.dtype()), " is for storage only and does not compute"),
                       ".to(f32) or another computing dtype first");
}

inline void require_floating(const OpScope& s, DType t) {
  if (!is_floating(t) || !computes(t)) [[unlikely]]
    s.fail<DtypeError>(str("expected a floating dtype that computes, got ", dtype_name(t)),
                       ".to(f32)");
}
inline void require_floating(const OpScope& s) { require_floating(s, s.dtype()); }
inline void require_floating(const OpScope& s, int operand) {
  require_floating(s, s.dtype(operand));
}

}  // namespace wt::detail
