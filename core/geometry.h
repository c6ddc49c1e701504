// The numbers that describe a tensor, and the two-word view of one that kernels get. No STL:
// device code includes this.
#pragma once
#include "warptape/core/checked.h"
#include "warptape/core/dtype.h"
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

struct Geometry {
  i64 shape[kMaxDims];
  i64 strides[kMaxDims];  // in elements
  i64 numel;
  u8 ndim;
  DType dtype;
  bool dense;  // C-contiguous in logical order (always true for 0 or 1 elements)
};

// What a kernel sees of a tensor: where its first element lies and its geometry, both borrowed for
// the length of the call. `data` is null on the meta device and for absent optional operands.
struct View {
  void* data = nullptr;
  const Geometry* geometry = nullptr;

  explicit operator bool() const { return geometry != nullptr; }
  template <class T>
  WT_HOT T* as() const {
    return static_cast<T*>(data);
  }
  WT_HOT int ndim() const { return geometry->ndim; }
  WT_HOT i64 numel() const { return geometry->numel; }
  WT_HOT i64 size(int axis) const { return geometry->shape[axis]; }
  WT_HOT i64 stride(int axis) const { return geometry->strides[axis]; }
  WT_HOT DType dtype() const { return geometry->dtype; }
  WT_HOT bool dense() const { return geometry->dense; }
  WT_HOT i64 bytes() const { return geometry->numel * item_size(geometry->dtype); }
};

// Recomputes `numel` and `dense` from shape and strides.
inline void finish_geometry(Geometry& g) {
  i64 n = 1, expected = 1;
  bool dense = true;
  for (int i = g.ndim; i-- > 0;) {
    if (g.shape[i] != 1 && g.strides[i] != expected) dense = false;
    n = wrapped_mul(n, g.shape[i]);
    expected = wrapped_mul(expected, g.shape[i]);
  }
  g.numel = n;
  g.dense = dense || n <= 1;
}

WT_HOT bool same_shape(const Geometry& a, const Geometry& b) {
  if (a.ndim != b.ndim) return false;
  for (int i = 0; i < a.ndim; ++i)
    if (a.shape[i] != b.shape[i]) return false;
  return true;
}

}  // namespace wt
