// Square matrices as products of a lower and an upper triangular one, with partial pivoting.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/linalg/dense_slices.h"

namespace wt {

// Row i of l u is row rows[i] of `in`: below the diagonal of out [.., n, n] stands l, whose
// diagonal is 1, on and above it u. rows [.., n]: i64. sign [..]: 1, or -1 where an odd number of
// rows changed places. info [..], i32: the order of the first pivot that is 0 (the matrix is
// singular; its column of l stays undivided), else 0. Dense, f32 or f64 as `in`; the last two axes
// are the matrices. With n = 0 nothing is written.
struct LuArgs {
  template <class Slices>
  bool add_slices(const Slices& s) {
    return lead_dense(s, out, rows, sign, info, in);
  }
  View out, rows, sign, info, in;
  i64 bytes() const {
    return out.bytes() + rows.bytes() + sign.bytes() + info.bytes() + in.bytes();
  }
  i64 flops() const { return in.ndim() < 2 ? 0 : in.numel() * in.size(in.ndim() - 1) * 2 / 3; }
};
WT_CONTRACT(lu, LuArgs);

}  // namespace wt
