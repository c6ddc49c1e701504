// What a sequence may be; kernels/copy/sequence_values.h makes it. No STL: device code includes
// this.
#pragma once
#include "warptape/core/types.h"

namespace wt {

enum class SequenceKind : u8 {
  integers,  // first + i step, modulo 2^64
  reals,     // begin + i stride
  between,   // n numbers from begin to end, both hit exactly: counted from whichever is nearer
  identity,  // of [n, n]: 1 on the diagonal
  whole      // n integers from first to step, both hit: between, exactly, then cut towards zero
};

}  // namespace wt
