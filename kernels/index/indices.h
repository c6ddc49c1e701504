// Index tensors on the host.
#pragma once
#include "warptape/core/geometry.h"

namespace wt {

// Elements of an index tensor, which is i64 or i32, by their place in its memory.
struct IndexReader {
  const void* data;
  bool wide;
  explicit IndexReader(const View& v) : data(v.data), wide(v.dtype() == DType::i64) {}
  i64 operator()(i64 offset) const {
    return wide ? static_cast<const i64*>(data)[offset]
                : i64(static_cast<const i32*>(data)[offset]);
  }
};

}  // namespace wt
