// Distances of every point of one set to every point of another.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/linalg/metric.h"

namespace wt {

// y[n, i, j] = the p-norm of d = a[n, i, :] - b[n, j, :]: the root of the sum of squares for p = 2,
// sum |d| for p = 1, the largest |d| for p = inf, the number of d that are not 0 for p = 0, else
// (sum |d|^p)^(1/p). Of points without coordinates it is 0. A NaN among the differences gives NaN,
// but for p = 0, which counts it. Differences are taken before anything is squared: near points
// keep their digits.
// a: [N, I, D], b: [N, J, D], y: [N, I, J]; any strides, a and b may be expanded. f64 f32 f16 bf16,
// one dtype for a and b; y has it or, of 16-bit ones, f32, in which they compute. y overlaps
// nothing. p >= 0.
struct CdistForwardArgs {
  View y;
  View a, b;
  double p = 2;
  i64 bytes() const { return y.bytes() + a.bytes() + b.bytes(); }
  i64 flops() const { return 3 * y.numel() * a.size(2); }
};
WT_CONTRACT(cdist_forward, CdistForwardArgs);

// With s = the derivative of the norm by d, which is taken to be 0 where the norm is 0:
//   ga[n, i, k] = sum_j gy[n, i, j] s(a[n, i, k] - b[n, j, k], y[n, i, j])
//   gb[n, j, k] = -sum_i the same
//   s(d, y) = d / y for p = 2, sign(d) for p = 1, sign(d) where |d| = y for p = inf (whole for each
//   of several largest ones, as PyTorch has it), else sign(d) (|d| / y)^(p - 1), 0 where d = 0
// y: the forward's in the dtype that a computes in; gy, ga, gb: a's dtype; any strides, gy may be
// expanded. ga or gb may be absent. They overlap nothing. p > 0.
struct CdistBackwardArgs {
  View ga, gb;
  View gy, y;
  View a, b;
  double p = 2;
  i64 bytes() const { return 2 * (a.bytes() + b.bytes()) + y.bytes() + gy.bytes(); }
  i64 flops() const { return 3 * y.numel() * a.size(2) * ((ga ? 1 : 0) + (gb ? 1 : 0)); }
};
WT_CONTRACT(cdist_backward, CdistBackwardArgs);

}  // namespace wt
