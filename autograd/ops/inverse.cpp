// Systems, inverses and determinants. The factors are found without a gradient; the derivatives are
// written in the same operators.
#include "warptape/autograd/ops/inverse.h"

#include <cmath>
#include <vector>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/decompose.h"
#include "warptape/autograd/ops/diagonal.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/internal/count_true.h"
#include "warptape/autograd/ops/internal/matrices.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/stats.h"
#include "warptape/autograd/ops/svd.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/lu.h"

namespace wt {
namespace info {
constexpr OpInfo solve{.name = "solve", .autocast = Autocast::f32};
constexpr OpInfo inverse{.name = "inverse", .autocast = Autocast::f32};
constexpr OpInfo det{.name = "det", .autocast = Autocast::f32};
constexpr OpInfo slogdet{.name = "slogdet", .autocast = Autocast::f32};
}  // namespace info

namespace {

struct Factors {
  Tensor lu, rows, sign, info;
};
// Of operand 0; without recording.
Factors factors_of(const OpScope& s) {
  const NoGrad no_grad;
  const Tensor a = detach(dense_matrices(s));
  const Shape batch = batch_of(s.geometry(0));
  Shape rows = batch;
  rows.push_back(a.size(-1));
  const TensorOptions like{.dtype = a.dtype(), .device = a.device()};
  Factors f{empty(a.shape(), like), empty(rows, {.dtype = DType::i64, .device = a.device()}),
            ones(batch, like), zeros(batch, {.dtype = DType::i32, .device = a.device()})};
  run(LuArgs{view_of(f.lu.impl()), view_of(f.rows.impl()), view_of(f.sign.impl()),
             view_of(f.info.impl()), view_of(a.impl())},
      s.launch());
  return f;
}

// Throws for the first singular matrix. Waits for the device.
void require_regular(const OpScope& s, const Factors& f) {
  if (const MatrixFailure failure = failure_of(s, f.info); failure.matrix >= 0)
    s.fail<NumericError>(str("matrix", which_matrix(s, failure.matrix), " is singular: its pivot ",
                             failure.info, " is 0"));
}

// b [.., n, k], whose batch is that of the factors broadcast.
Tensor substituted(const Factors& f, const Tensor& b) {
  const NoGrad no_grad;
  const Tensor in_order = gather(b, -2, expand(unsqueeze(f.rows, -1), b.shape()));
  const Tensor y = solve_triangular(f.lu, in_order, {.unitriangular = true});
  return solve_triangular(f.lu, y, {.upper = true});
}

void solve_backward(Backward& g) {
  const Tensor &a = g.saved(0), &x = g.saved(1);
  const Tensor gb = solve(transposed(a), g.take_grad());
  if (g.wants(0)) g.put_broadcast(0, neg(matmul(gb, transposed(x))));
  if (g.wants(1)) g.put_broadcast(1, gb);
}
void inverse_backward(Backward& g) {
  const Tensor back = transposed(g.saved(0));
  g.put(0, neg(matmul(matmul(back, g.take_grad()), back)));
}

// --- what a determinant is without a row and a column ---

// The cofactors of a [.., n, n], each the determinant of what is left: for second derivatives.
Tensor minors_with_sign(const Tensor& a) {
  const i64 n = a.size(-1), batch = a.numel() / (n * n);
  std::vector<i64> rest, signs;
  for (i64 k = 0; k < n; ++k)
    for (i64 i = 0; i < n; ++i) {
      signs.push_back((i + k) % 2 ? -1 : 1);
      if (i != k) rest.push_back(i);
    }
  const Tensor others = tensor(rest, {.dtype = DType::i64, .device = a.device()});
  const Tensor rows = index_select(reshape(a, {batch, n, n}), 1, others);
  const Tensor both = index_select(reshape(rows, {batch, n, n - 1, n}), 3, others);
  const Tensor left = transpose(reshape(both, {batch, n, n - 1, n, n - 1}), 2, 3);
  const Tensor sign = to_dtype(tensor(signs, {.device = a.device()}), a.dtype());
  return reshape(mul(det(left), reshape(sign, {n, n})), a.shape());
}
// The same, det(u) det(vh) u diag(products of the other values) vh, from a = u diag(s) vh.
Tensor cofactors_by_svd(const Tensor& a) {
  const SvdResult p = svd(a);
  const i64 n = a.size(-1);
  const Tensor own = ne(eye(n, {.dtype = a.dtype(), .device = a.device()}), 0);
  const Tensor others = prod(where(own, 1.0, unsqueeze(p.s, -2)), -1);
  const Tensor sign = mul(detach(det(p.u)), detach(det(p.vh)));
  return mul(matmul(mul(p.u, unsqueeze(others, -2)), p.vh), unsqueeze(unsqueeze(sign, -1), -1));
}
constexpr i64 kMostMinors = 16;  // n^2 matrices of (n - 1)^2 elements

// Which matrices are singular by their determinants y; for second derivatives also those that are
// nearly so beside what their rows allow (Hadamard): of y a^-1 a^-1 no digit would be left.
Tensor singular_ones(const Backward& g, const Tensor& a, const Tensor& y) {
  if (!g.recording() || a.size(-1) > kMostMinors) return eq(y, 0);
  const NoGrad no_grad;
  const double least = std::log(a.dtype() == DType::f64 ? 0x1p-26 : 0x1p-12);
  return le(log(abs(y)), add(sum(log(norm(a, 2, -1)), -1), least));
}
Tensor cofactors(const Backward& g, const Tensor& a) {
  if (a.size(-1) == 1) return ones_like(a);
  return g.recording() && a.size(-1) <= kMostMinors ? minors_with_sign(a) : cofactors_by_svd(a);
}

// share a^-T, a number of `share` for each matrix; where `singular` is set, which may be nowhere,
// instead of_cofactors(share, c), c being the cofactors. Waits for the device, as inverse() does.
template <class F>
Tensor in_shares(const Backward& g, const Tensor& share, const Tensor& a, const Tensor& singular,
                 const F& of_cofactors) {
  const auto each = [](const Tensor& t) { return unsqueeze(unsqueeze(t, -1), -1); };
  if (a.device().is_meta || detail::count_true(singular) == 0)
    return mul(each(share), transposed(inverse(a)));
  const Tensor one = eye(a.size(-1), {.dtype = a.dtype(), .device = a.device()});
  const Tensor where_singular = each(singular);
  const Tensor regular = mul(each(share), transposed(inverse(where(where_singular, one, a))));
  const Tensor c = cofactors(g, where(where_singular, a, one));
  return where(where_singular, of_cofactors(each(share), c), regular);
}

// gy times the cofactors, which are y a^-T where there is an inverse.
void det_backward(Backward& g) {
  const Tensor &a = g.saved(0), &y = g.saved(1);
  const Tensor gy = g.take_grad(), singular = singular_ones(g, a, y);
  const Tensor share = mul(gy, where(singular, 1.0, y));
  g.put(0, in_shares(g, share, a, singular,
                     [](const Tensor& s, const Tensor& c) { return mul(s, c); }));
}
// The sign is constant wherever there is a derivative. A singular matrix has the cofactors by 0.
void slogdet_backward(Backward& g) {
  const Tensor &a = g.saved(0), &y = g.saved(1);
  if (!g.has_grad(1)) return g.put(0, zeros_like(a));
  g.put(0, in_shares(g, g.take_grad(1), a, eq(y, -INFINITY), [](const Tensor& s, const Tensor& c) {
          const Tensor along = mul(s, c);
          return where(eq(along, 0), 0.0, mul(sign(along), INFINITY));
        }));
}

}  // namespace

Tensor solve(const In& a, const In& b) {
  OpScope s(info::solve, a, b);
  require_matrices(s, 0, "a", true);
  const Geometry &p = s.geometry(0), &q = s.geometry(1);
  if (q.ndim < 2)
    s.fail<ShapeError>(str("b must have at least 2 dimensions, got shape ", shape_of(q)));
  const i64 n = p.shape[p.ndim - 1], rows = q.shape[q.ndim - 2];
  if (n != rows) s.fail<ShapeError>(str("a has ", n, " columns, b has ", rows, " rows"));
  Shape right = broadcast_operands(s, batch_of(p), batch_of(q));
  right.push_back(n), right.push_back(q.shape[q.ndim - 1]);
  s.save_input(0);
  s.save_output();
  const Factors f = factors_of(s);
  require_regular(s, f);
  Tensor x;
  {
    const NoGrad no_grad;
    x = substituted(f, expand(detach(Tensor(detail::retained(s.impl(1)))), right));
  }
  Result y = OpScope::adopt(std::move(x));
  s.record(solve_backward);
  return s.finish(std::move(y));
}

Tensor inverse(const In& a) {
  OpScope s(info::inverse, a);
  require_matrices(s, 0, "a", true);
  s.save_output();
  const Factors f = factors_of(s);
  require_regular(s, f);
  Tensor x;
  {
    const NoGrad no_grad;
    const i64 n = f.lu.size(-1);
    const Tensor one = diag_embed(ones({n}, {.dtype = f.lu.dtype(), .device = f.lu.device()}));
    x = substituted(f, expand(one, f.lu.shape()));
  }
  Result y = OpScope::adopt(std::move(x));
  s.record(inverse_backward);
  return s.finish(std::move(y));
}

Tensor det(const In& a) {
  OpScope s(info::det, a);
  require_matrices(s, 0, "a", true);
  s.save_input(0);
  s.save_output();
  const Factors f = factors_of(s);
  Tensor x;
  {
    const NoGrad no_grad;
    x = mul(f.sign, prod(diagonal(f.lu, 0, -2, -1), -1));
  }
  Result y = OpScope::adopt(std::move(x));
  s.record(det_backward);
  return s.finish(std::move(y));
}

SlogdetResult slogdet(const In& a) {
  OpScope s(info::slogdet, a);
  require_matrices(s, 0, "a", true);
  s.save_input(0);
  s.save_output(1);
  const Factors f = factors_of(s);
  std::vector<Result> out;
  {
    const NoGrad no_grad;
    const Tensor pivots = diagonal(f.lu, 0, -2, -1);
    out.push_back(OpScope::adopt(mul(f.sign, prod(sign(pivots), -1))));
    out.push_back(OpScope::adopt(sum(log(abs(pivots)), -1)));
  }
  s.record(slogdet_backward);
  std::vector<Tensor> t = s.finish(std::move(out));
  return {std::move(t[0]), std::move(t[1])};
}

namespace detail {
OpInfos inverse_ops() {
  static constexpr const OpInfo* kOps[] = {&info::solve, &info::inverse, &info::det,
                                           &info::slogdet};
  return kOps;
}
}  // namespace detail

}  // namespace wt
