// What Muon (Jordan et al. 2024) does to a matrix between its gradient and its step, beside the
// products: the direction, its norm taken out, and the polynomial of the Gram matrix. The step
// itself is muon_step (optim_rule.h), the norm is grad_norm's.
//
// Nothing here looks at a flag: only memory of the step's own is written.
#pragma once
#include "warptape/kernels/optim_step.h"

namespace wt {

// The momentum that the step will have, looked ahead of with `nesterov`:
//   g = grad * grad_factor; next = momentum + (1 - block.momentum) * (g - momentum)
//   out = nesterov ? g + block.momentum * (next - g) : next
// n elements each, f32 or f64; out overlaps nothing.
struct MuonDirectionArgs {
  void* out = nullptr;
  const void* grad = nullptr;
  const void* momentum = nullptr;
  i64 n = 0;
  DType dtype = DType::f32;
  const OptimBlock* block = nullptr;
  const double* grad_factor = nullptr;  // null: 1
  bool nesterov = true;
  i64 bytes() const { return 3 * n * item_size(dtype); }
  i64 flops() const { return 6 * n; }
};
WT_CONTRACT(muon_direction, MuonDirectionArgs);

// out = in / max(sqrt(sum of partials), eps): n elements, f32 or f64, no overlap.
// partials: `count` sums of squares, of grad_norm.
struct MuonNormalizeArgs {
  void* out = nullptr;
  const void* in = nullptr;
  i64 n = 0;
  DType dtype = DType::f32;
  const double* partials = nullptr;
  i64 count = 0;
  double eps = 0;
  i64 bytes() const { return 2 * n * item_size(dtype) + 8 * count; }
  i64 flops() const { return n + count; }
};
WT_CONTRACT(muon_normalize, MuonNormalizeArgs);

// square = a * identity + b * gram + c * square: both [rows, rows], contiguous, f32 or f64.
struct MuonPolynomialArgs {
  void* square = nullptr;
  const void* gram = nullptr;
  i64 rows = 0;
  DType dtype = DType::f32;
  double a = 0, b = 0, c = 0;
  i64 bytes() const { return 3 * rows * rows * item_size(dtype); }
  i64 flops() const { return 3 * rows * rows; }
};
WT_CONTRACT(muon_polynomial, MuonPolynomialArgs);

// --- the formulas, for the kernels of every device ---
namespace detail {

template <class T>
struct MuonDirection {
  T momentum, rest, factor;
  bool nesterov;
  WT_HD WT_HOT explicit MuonDirection(const MuonDirectionArgs& a)
      : momentum(scalars_of<T>(*a.block).momentum),
        rest(scalars_of<T>(*a.block).one_minus_momentum),
        factor(T(a.grad_factor ? *a.grad_factor : 1)),
        nesterov(a.nesterov) {}
  WT_HD WT_HOT T operator()(T grad, T before) const {
    const T g = grad * factor, next = before + rest * (g - before);
    return nesterov ? g + momentum * (next - g) : next;
  }
};

// A norm that is NaN stays.
WT_HD WT_HOT double muon_scale(double norm, double eps) { return 1 / (norm < eps ? eps : norm); }

template <class T>
WT_HD WT_HOT T muon_term(const MuonPolynomialArgs& p, bool diagonal, T gram, T square) {
  return (diagonal ? T(p.a) : T(0)) + T(p.b) * gram + T(p.c) * square;
}

}  // namespace detail
}  // namespace wt
