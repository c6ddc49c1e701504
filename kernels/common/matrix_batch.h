// Batches of dense matrices: the last two axes of a view.
#pragma once
#include "warptape/core/geometry.h"

namespace wt {

struct MatrixBatch {
  i64 count = 1, rows, columns;
  explicit MatrixBatch(const View& v) : rows(v.size(v.ndim() - 2)), columns(v.size(v.ndim() - 1)) {
    for (int d = 0; d + 2 < v.ndim(); ++d) count *= v.size(d);
  }
  i64 size() const { return rows * columns; }  // elements of one
};

}  // namespace wt
