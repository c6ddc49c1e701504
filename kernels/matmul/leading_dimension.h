// A matrix as BLAS libraries want it: lines of neighbours, a leading dimension apart.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

struct LeadingDimension {
  bool transposed;  // the lines are columns
  i64 lead;         // at least the length of a line
};

// Of a matrix with unit stride along rows or columns. The stride of an axis of one element means
// nothing: a [4, 1] weight seen as [1, 4] has row stride 1, and libraries refuse a leading
// dimension below a line's four elements.
WT_HOT LeadingDimension leading_dimension(i64 rows, i64 columns, i64 row_stride,
                                          i64 column_stride) {
  if (columns == 1 || column_stride == 1) {
    if (rows > 1) return {false, row_stride};
    return {false, columns};
  }
  return {true, column_stride};
}

}  // namespace wt
