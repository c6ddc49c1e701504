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
// partials: `count` sums of squares, of grad_norm. bf16: the norm has a value of bf16's.
struct MuonNormalizeArgs {
  void* out = nullptr;
  const void* in = nullptr;
  i64 n = 0;
  DType dtype = DType::f32;
  const double* partials = nullptr;
  i64 count = 0;
  double eps = 0;
  bool bf16 = false;
  i64 bytes() const { return 2 * n * item_size(dtype) + 8 * count; }
  i64 flops() const { return n + count; }
};
WT_CONTRACT(muon_normalize, MuonNormalizeArgs);

// square = a * identity + b * gram + c * square: both [rows, rows], contiguous, f32 or f64; gram
// may be square. bf16: the sum is rounded to bf16's values and then multiplied by `scale`, and
// there both may be [rows, columns].
struct MuonPolynomialArgs {
  void* square = nullptr;
  const void* gram = nullptr;
  i64 rows = 0;
  DType dtype = DType::f32;
  double a = 0, b = 0, c = 0;
  i64 columns = 0;  // 0: as many as rows; with bf16 alone
  bool bf16 = false;
  double scale = 1;
  WT_HD WT_HOT i64 row_size() const { return bf16 && columns ? columns : rows; }
  i64 bytes() const { return 3 * rows * row_size() * item_size(dtype); }
  i64 flops() const { return 3 * rows * row_size(); }
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

// The nearest value of bf16, ties to even.
template <class T>
WT_HD WT_HOT T in_bf16(T x) {
  const float v = float(x);
  if (v != v) return x;
  const u32 bits = __builtin_bit_cast(u32, v), up = bits + 0x7fffu + (bits >> 16 & 1u);
  return T(__builtin_bit_cast(float, up & 0xffff0000u));
}

// A norm that is NaN stays.
WT_HD WT_HOT double muon_scale(const MuonNormalizeArgs& a, double norm) {
  if (a.bf16) norm = in_bf16(norm);
  return 1 / (norm < a.eps ? a.eps : norm);
}

template <class T>
WT_HD WT_HOT T muon_term(const MuonPolynomialArgs& p, bool diagonal, T gram, T square) {
  return (diagonal ? T(p.a) : T(0)) + T(p.b) * gram + T(p.c) * square;
}
template <class T>
WT_HD WT_HOT T muon_term_in_bf16(const MuonPolynomialArgs& p, bool diagonal, T gram, T square) {
  return in_bf16(muon_term(p, diagonal, gram, square)) * T(p.scale);
}

}  // namespace detail
}  // namespace wt
