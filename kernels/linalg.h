// Matrices taken apart, and triangular systems.
//
// Batches of dense matrices in C order, f32 or f64: the last two axes are rows and columns, the
// others count. On the cpu on one thread, LAPACK too, so that the number of threads changes no bit.
//
// Whether a matrix could be taken apart is known where it is done: `info`, i32 of the batch's
// shape, is written for every matrix, 0 where all is well. What comes out of another one is of no
// use.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/linalg/dense_slices.h"

namespace wt {

// out [.., n, n] = the lower triangular L with L L^T = in, of which the lower triangle is read; out
// may be in. Above the diagonal it is zero. info: the order of the first leading minor that is not
// positive, or NaN.
struct CholeskyArgs {
  View out, in, info;
  i64 bytes() const { return out.bytes() + in.bytes(); }
  i64 flops() const { return in.ndim() < 2 ? 0 : in.numel() * in.size(in.ndim() - 1) / 3; }
};
WT_CONTRACT(cholesky, CholeskyArgs);

// out [.., n, k]: holds the right sides b and gets the x of op(a) x = b, a [.., n, n] being upper
// or lower triangular (the other triangle is not read), op its transpose if `transposed`, its
// diagonal not read but taken for 1 if `unit`.
struct SolveTriangularArgs {
  View out, a;
  bool upper, transposed, unit;
  i64 bytes() const { return out.bytes() * 2 + a.bytes() / 2; }
  i64 flops() const { return out.ndim() < 2 ? 0 : out.numel() * a.size(a.ndim() - 1); }
};
WT_CONTRACT(solve_triangular, SolveTriangularArgs);

// in [.., m, n] = q r, with k = min(m, n): the columns of q [.., m, k] are orthonormal, r [.., k,
// n] is upper triangular.
struct QrArgs {
  template <class Slices>
  bool add_slices(const Slices& s) {
    return lead_dense(s, q, r, in);
  }
  View q, r, in;
  i64 bytes() const { return q.bytes() + r.bytes() + in.bytes(); }
  i64 flops() const { return in.ndim() < 2 ? 0 : in.numel() * 4 * q.size(q.ndim() - 1); }
};
WT_CONTRACT(qr, QrArgs);

// in [.., n, n] = vectors diag(values) vectors^T, the lower triangle being read: values [.., n]
// ascend, the columns of vectors [.., n, n] are orthonormal. info: not 0 where the iteration does
// not converge.
struct EighArgs {
  View values, vectors, in, info;
  i64 bytes() const { return values.bytes() + vectors.bytes() + in.bytes(); }
  i64 flops() const { return in.ndim() < 2 ? 0 : in.numel() * 9 * in.size(in.ndim() - 1); }
};
WT_CONTRACT(eigh, EighArgs);

}  // namespace wt
