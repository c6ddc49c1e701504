// A number as an element of a dtype: what it becomes, and whether there is such an element.
// Internal.
#pragma once
#include <string>

#include "warptape/core/frame.h"
#include "warptape/core/scalar.h"

namespace wt::detail {

// Rounded once to nearest even in the floating dtype t, whatever v's kind.
double rounded_to(DType t, Scalar v);
// The bits in the integer dtype t, cut towards zero; of what does not fit those of Scalar::to_int.
i64 whole_of(DType t, Scalar v);
// Whether an element of dtype t can be v but for rounding: no integer that wraps, no finite number
// that becomes infinite, no NaN as an integer. bool holds everything: whether it is zero.
bool holds(DType t, Scalar v);
// "300", "1e+09": integers have all their digits.
std::string text_of(Scalar v);
// Throws DtypeError: "[op] u8 cannot hold 300", and the user's line.
void require_held(const char* op, DType t, Scalar v, Frame at);

}  // namespace wt::detail
