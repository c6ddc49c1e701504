// Matrices as products of orthonormal columns, lengths and orthonormal rows.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/linalg/dense_slices.h"

namespace wt {

// in [.., m, n] = u diag(s) vh, with k = min(m, n) at least 1: s [.., k] descends and is not
// negative; the columns of u [.., m, k] and the rows of vh [.., k, n] are orthonormal. u may be
// [.., m, m] and vh [.., n, n], both or neither: what is beyond k completes an orthonormal basis.
// Both may be missing: s alone is wanted. info [..], i32: not 0 where the iteration does not
// converge, as with NaN and infinities; what comes out is of no use then. Dense, f32 or f64 as
// `in`; the last two axes are the matrices.
struct SvdArgs {
  View u, s, vh, in, info;
  bool vectors() const { return bool(u); }
  i64 bytes() const {
    return in.bytes() + s.bytes() + (vectors() ? u.bytes() + vh.bytes() : i64{0});
  }
  template <class Slices>
  bool add_slices(const Slices& all) {
    return lead_dense(all, u, s, vh, in, info);
  }
  i64 flops() const { return s.ndim() < 1 ? 0 : in.numel() * 14 * s.size(s.ndim() - 1); }
};
WT_CONTRACT(svd, SvdArgs);

}  // namespace wt
