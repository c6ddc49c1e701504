// Cholesky and triangular systems with both derivatives; QR and eigenvectors without.
#include "warptape/autograd/ops/decompose.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/diagonal.h"
#include "warptape/autograd/ops/internal/matrices.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/linalg.h"

namespace wt {
namespace info {
constexpr OpInfo cholesky{.name = "cholesky", .autocast = Autocast::f32};
constexpr OpInfo solve_triangular{.name = "solve_triangular", .autocast = Autocast::f32};
constexpr OpInfo qr{.name = "qr", .autocast = Autocast::f32, .derivative = Derivative::none};
constexpr OpInfo eigh{.name = "eigh", .autocast = Autocast::f32, .derivative = Derivative::none};
}  // namespace info

namespace {

// --- cholesky ---
// ga = (s + s^T) / 2, s = L^-T phi(L^T gL) L^-1, phi being the lower triangle with half of the
// diagonal.
void cholesky_backward(Backward& g) {
  const Tensor& l = g.saved(0);
  const Tensor p = matmul(transposed(l), g.take_grad());
  const Tensor phi = add(tril(p, -1), diag_embed(mul(diagonal(p, 0, -2, -1), 0.5)));
  const SolveTriangularOptions o{.transposed = true};
  const Tensor x = solve_triangular(l, phi, o);
  const Tensor s = solve_triangular(l, transposed(x), o);
  g.put(0, mul(add(s, transposed(s)), 0.5));
}

// --- triangular systems ---
// gb = op(a)^-T gx; ga = -gb x^T, or its transpose, where a is read.
void solve_triangular_backward(Backward& g) {
  const auto o = g.attribute<SolveTriangularOptions>();
  const Tensor &a = g.saved(0), &x = g.saved(1);
  SolveTriangularOptions back = o;
  back.transposed = !o.transposed;
  const Tensor gb = solve_triangular(a, g.take_grad(), back);
  if (g.wants(0)) {
    const Tensor full = neg(o.transposed ? matmul(x, transposed(gb)) : matmul(gb, transposed(x)));
    const int k = o.unitriangular ? 1 : 0;
    g.put_broadcast(0, o.upper ? triu(full, k) : tril(full, -k));
  }
  if (g.wants(1)) g.put_broadcast(1, gb);
}

}  // namespace

Tensor cholesky(const In& a) {
  OpScope s(info::cholesky, a);
  require_matrices(s, 0, "a", true);
  s.save_output();
  const Tensor in = dense_matrices(s), info = new_info(s);
  Result y = s.result(shape_of(s.geometry(0)), s.dtype());
  s.record(cholesky_backward);
  run(CholeskyArgs{y.view(), view_of(in.impl()), view_of(info.impl())}, s.launch());
  const MatrixFailure failure = failure_of(s, info);
  if (failure.matrix >= 0)
    s.fail<NumericError>(str("matrix", which_matrix(s, failure.matrix),
                             " is not positive definite: its leading minor of order ", failure.info,
                             " is not positive"));
  return s.finish(std::move(y));
}

Tensor solve_triangular(const In& a, const In& b, SolveTriangularOptions options) {
  OpScope s(info::solve_triangular, a, b);
  require_matrices(s, 0, "a", true);
  require_matrices(s, 1, "b", false);
  const Geometry &p = s.geometry(0), &q = s.geometry(1);
  const i64 n = p.shape[p.ndim - 1], rows = q.shape[q.ndim - 2];
  if (n != rows) s.fail<ShapeError>(str("a has ", n, " columns, b has ", rows, " rows"));
  Shape left = broadcast_operands(s, batch_of(p), batch_of(q)), right = left;
  left.push_back(n), left.push_back(n);
  right.push_back(n), right.push_back(q.shape[q.ndim - 1]);
  s.save_input(0);
  s.save_output();
  const Tensor matrix = dense_matrices(s, 0, left), sides = dense_matrices(s, 1, right);
  Result y = s.result(right, s.dtype());
  s.record(solve_triangular_backward);
  s.set_attribute(options);
  run(CopyArgs{y.view(), view_of(sides.impl())}, s.launch());
  run(SolveTriangularArgs{y.view(), view_of(matrix.impl()), options.upper, options.transposed,
                          options.unitriangular},
      s.launch());
  return s.finish(std::move(y));
}

QrResult qr(const In& a) {
  OpScope s(info::qr, a);
  require_matrices(s, 0, "a", false);
  Shape left = shape_of(s.geometry(0)), right = left;
  const int n = left.ndim();
  const i64 k = std::min(left[n - 2], left[n - 1]);
  left[n - 1] = right[n - 2] = k;
  const Tensor in = dense_matrices(s);
  std::vector<Result> out;
  out.push_back(s.result(left, s.dtype()));
  out.push_back(s.result(right, s.dtype()));
  run(QrArgs{out[0].view(), out[1].view(), view_of(in.impl())}, s.launch());
  std::vector<Tensor> t = s.finish(std::move(out));
  return {std::move(t[0]), std::move(t[1])};
}

EighResult eigh(const In& a) {
  OpScope s(info::eigh, a);
  require_matrices(s, 0, "a", true);
  const Shape shape = shape_of(s.geometry(0));
  const Tensor in = dense_matrices(s), info = new_info(s);
  std::vector<Result> out;
  out.push_back(s.result(Shape(shape.data(), shape.ndim() - 1), s.dtype()));
  out.push_back(s.result(shape, s.dtype()));
  run(EighArgs{out[0].view(), out[1].view(), view_of(in.impl()), view_of(info.impl())}, s.launch());
  const MatrixFailure failure = failure_of(s, info);
  if (failure.matrix >= 0)
    s.fail<NumericError>(str("the iteration does not converge for matrix",
                             which_matrix(s, failure.matrix),
                             " (with NaN or infinities it never does)"));
  std::vector<Tensor> t = s.finish(std::move(out));
  return {std::move(t[0]), std::move(t[1])};
}

namespace detail {
OpInfos decompose_ops() {
  static constexpr const OpInfo* kOps[] = {&info::cholesky, &info::solve_triangular, &info::qr,
                                           &info::eigh};
  return kOps;
}
}  // namespace detail

}  // namespace wt
