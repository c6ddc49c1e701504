// Loops over strided operands, host side: sizes and strides of several tensors that are walked
// together, with mergeable dimensions merged. No STL: .cu files include this through
// device/strided_index.cuh.
#pragma once
#include "warptape/core/geometry.h"

namespace wt {

// The element numbers of the operands that belong together: a nest of loops, innermost first
// (dimension 0 varies fastest). Dimensions of size 1 are dropped and neighbours that step alike are
// one, so dense operands have ndim 1 (0 for one element).
template <int N>
struct LoopNest {
  i64 numel;
  int ndim;
  i64 size[kMaxDims];
  i64 stride[N][kMaxDims];  // in elements; 0 where an operand is broadcast

  // Every operand is walked one element after the other.
  WT_HOT bool dense() const {
    if (ndim > 1) return false;
    for (int k = 0; k < N; ++k)
      if (ndim == 1 && stride[k][0] != 1) return false;
    return true;
  }
  // Elements in a run of the innermost loop.
  WT_HOT i64 inner() const { return ndim ? size[0] : numel; }
  WT_HOT i64 inner_stride(int k) const { return ndim ? stride[k][0] : 1; }
};

enum class LoopOrder : u8 {
  logical,  // element i of the walk is element i of operand 0 in C order
  memory,   // operand 0 is walked in the order of its memory: for values that do not depend on i
};

namespace detail {
void fill_nest(const View* operands, int n, LoopOrder order, i64* numel, int* ndim, i64* size,
               i64 (*stride)[kMaxDims]);
}

// Operands 1 and up broadcast to the shape of operand 0 (trailing axes aligned; the shapes are
// known to fit).
template <int N>
WT_HOT LoopNest<N> loop_nest(const View (&operands)[N], LoopOrder order = LoopOrder::logical) {
  LoopNest<N> nest;
  detail::fill_nest(operands, N, order, &nest.numel, &nest.ndim, nest.size, nest.stride);
  return nest;
}

// Calls `row(at)` for every run of the innermost loop, at[k] being the first element of operand k:
// nest.inner() elements with steps nest.inner_stride(k) belong to it.
template <int N, class Row>
WT_HOT void for_each_row(const LoopNest<N>& nest, Row&& row) {
  if (nest.numel == 0) return;
  i64 at[N] = {}, counter[kMaxDims] = {};
  for (;;) {
    row(static_cast<const i64(&)[N]>(at));
    int d = 1;
    for (; d < nest.ndim; ++d) {
      for (int k = 0; k < N; ++k) at[k] += nest.stride[k][d];
      if (++counter[d] < nest.size[d]) break;
      for (int k = 0; k < N; ++k) at[k] -= nest.stride[k][d] * nest.size[d];
      counter[d] = 0;
    }
    if (d >= nest.ndim) return;
  }
}

// A copy between two orders of one matrix, wherever the two innermost dimensions of `nest` show
// one: dimension 0 is consecutive in operand 0, dimension 1 (moved there if need be) in operand 1.
// `outer` gets the remaining dimensions, as 1-element rows. False: nothing was changed.
bool as_transposes(LoopNest<2>& nest, LoopNest<2>& outer);

}  // namespace wt
