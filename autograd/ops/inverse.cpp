// Systems, inverses and determinants. The factors are found without a gradient; the derivatives are
// written in the same operators.
#include "warptape/autograd/ops/inverse.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/decompose.h"
#include "warptape/autograd/ops/diagonal.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/internal/matrices.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
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
// share a^-T, a number of `share` for each matrix.
Tensor in_shares(const Tensor& share, const Tensor& a) {
  return mul(unsqueeze(unsqueeze(share, -1), -1), transposed(inverse(a)));
}
void det_backward(Backward& g) {
  const Tensor share = mul(g.take_grad(), g.saved(1));
  g.put(0, in_shares(share, g.saved(0)));
}
void slogdet_backward(Backward& g) {  // the sign is constant wherever there is a derivative
  const Tensor& a = g.saved(0);
  g.put(0, g.has_grad(1) ? in_shares(g.take_grad(1), a) : zeros_like(a));
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
