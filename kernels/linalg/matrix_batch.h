// Batches of dense matrices: the last two axes of a view.
#pragma once
#include "warptape/core/geometry.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

struct MatrixBatch {
  i64 count = 1, rows, columns;
  explicit MatrixBatch(const View& v) : rows(v.size(v.ndim() - 2)), columns(v.size(v.ndim() - 1)) {
    for (int d = 0; d + 2 < v.ndim(); ++d) count *= v.size(d);
  }
  i64 size() const { return rows * columns; }  // elements of one
};

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
