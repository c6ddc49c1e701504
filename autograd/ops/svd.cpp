// Singular values, vectors and what is made of them. The parts are found without a gradient; the
// derivatives are written in operators.
#include "warptape/autograd/ops/svd.h"

#include <algorithm>

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/diagonal.h"
#include "warptape/autograd/ops/internal/matrices.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/svd.h"

namespace wt {
namespace info {
constexpr OpInfo svd{.name = "svd", .autocast = Autocast::f32};
constexpr OpInfo svdvals{.name = "svdvals", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo pinv{.name = "pinv", .autocast = Autocast::f32};
constexpr OpInfo matrix_rank{.name = "matrix_rank",
                             .autocast = Autocast::f32,
                             .derivative = Derivative::none,
                             .composite = true};
}  // namespace info

namespace {

enum class Vectors : u8 { none, reduced, full };

// Of operand 0; without recording. u and vh are undefined without vectors.
SvdResult parts_of(const OpScope& s, Vectors vectors) {
  require_matrices(s, 0, "a", false);
  const NoGrad no_grad;
  const Tensor a = detach(dense_matrices(s)), info = new_info(s);
  const i64 m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const TensorOptions like{.dtype = a.dtype(), .device = a.device()};
  const Shape batch = batch_of(s.geometry(0));
  const auto sized = [&](std::initializer_list<i64> last) {
    Shape shape = batch;
    for (const i64 size : last) shape.push_back(size);
    return shape;
  };
  SvdResult y;
  y.s = empty(sized({k}), like);
  const bool full = vectors == Vectors::full;
  if (full && k == 0) {  // any basis will do, and no kernel makes it
    y.u = contiguous(expand(eye(m, like), sized({m, m})));
    y.vh = contiguous(expand(eye(n, like), sized({n, n})));
  } else if (vectors != Vectors::none) {
    y.u = empty(sized({m, full ? m : k}), like);
    y.vh = empty(sized({full ? n : k, n}), like);
  }
  const auto view = [](const Tensor& t) { return t.defined() ? view_of(t.impl()) : View{}; };
  if (a.numel() != 0)
    run(SvdArgs{view(y.u), view(y.s), view(y.vh), view(a), view(info)}, s.launch());
  const MatrixFailure failure = failure_of(s, info);
  if (failure.matrix >= 0)
    s.fail<NumericError>(str("the iteration does not converge for matrix",
                             which_matrix(s, failure.matrix),
                             " (with NaN or infinities it never does)"));
  return y;
}

// x diag(v), and diag(v) x.
Tensor times_columns(const Tensor& x, const Tensor& v) { return mul(x, unsqueeze(v, -2)); }
Tensor times_rows(const Tensor& v, const Tensor& x) { return mul(unsqueeze(v, -1), x); }

// The part of the gradient that lies between the vectors: [.., k, k].
Tensor inner_gradient(Backward& g, const Tensor& u, const Tensor& s, const Tensor& vh,
                      const Tensor& gu, const Tensor& gvh) {
  const auto skew = [](const Tensor& x) { return sub(x, transposed(x)); };
  Tensor inner;
  if (gu.defined()) inner = times_columns(skew(matmul(transposed(u), gu)), s);
  if (gvh.defined()) {
    Tensor right = times_rows(s, skew(matmul(vh, transposed(gvh))));
    inner = inner.defined() ? add(inner, right) : right;
  }
  if (inner.defined()) {
    const Tensor square = mul(s, s);
    const Tensor one = eye(s.size(-1), {.dtype = s.dtype(), .device = s.device()});
    inner = div(inner, add(sub(unsqueeze(square, -2), unsqueeze(square, -1)), one));
  }
  if (!g.has_grad(1)) return inner;
  const Tensor lengths = diag_embed(g.grad(1));
  return inner.defined() ? add(inner, lengths) : lengths;
}

void svd_backward(Backward& g) {
  const Tensor& s = g.saved(1);
  const i64 k = s.size(-1);
  // Of what completes the bases nothing is known.
  const Tensor u = slice(g.saved(0), -1, {0, k}), vh = slice(g.saved(2), -2, {0, k});
  const Tensor gu = g.has_grad(0) ? slice(g.grad(0), -1, {0, k}) : Tensor();
  const Tensor gvh = g.has_grad(2) ? slice(g.grad(2), -2, {0, k}) : Tensor();
  const i64 m = u.size(-2), n = vh.size(-1);
  const Tensor inner = inner_gradient(g, u, s, vh, gu, gvh);
  if (gu.defined() && k < m) {
    const Tensor outer = div(gu, unsqueeze(s, -2));
    const Tensor across =
        sub(add(matmul(u, inner), outer), matmul(u, matmul(transposed(u), outer)));
    return g.put(0, matmul(across, vh));
  }
  if (gvh.defined() && k < n) {
    const Tensor outer = div(gvh, unsqueeze(s, -1));
    const Tensor along =
        sub(add(matmul(inner, vh), outer), matmul(matmul(outer, transposed(vh)), vh));
    return g.put(0, matmul(u, along));
  }
  g.put(0, matmul(matmul(u, inner), vh));
}

// What of the singular values s of an m x n matrix counts as more than 0: bool, of s's shape.
Tensor nonzero_of(const OpScope& scope, const Tensor& s, i64 m, i64 n, SingularOptions o) {
  const double atol = o.atol.value_or(0);
  const double epsilon = s.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  const double rtol = o.rtol.value_or(atol > 0 ? 0 : epsilon * double(std::max(m, n)));
  if (!(atol >= 0) || !(rtol >= 0))
    scope.fail<UsageError>(str("a tolerance is ", atol >= 0 ? rtol : atol, ", below 0"));
  return gt(s, clamp_min(mul(slice(s, -1, {0, 1}), rtol), atol));
}

// By Golub and Pereyra, with h = gy^T; the products begin where they are smallest.
void pinv_backward(Backward& g) {
  const Tensor &a = g.saved(0), &y = g.saved(1);
  const Tensor h = transposed(g.grad()), back = transposed(y);
  if (a.size(-2) <= a.size(-1)) {
    const Tensor p = matmul(h, y), q = matmul(p, back);
    const Tensor inside = sub(q, transposed(matmul(y, p)));
    return g.put(0, add(sub(inside, matmul(matmul(a, y), q)),
                        matmul(matmul(back, y), sub(h, matmul(p, a)))));
  }
  const Tensor p = matmul(y, h), q = matmul(back, p);
  const Tensor inside = sub(q, transposed(matmul(p, y)));
  g.put(0,
        add(sub(inside, matmul(matmul(q, y), a)), matmul(matmul(sub(h, matmul(a, p)), y), back)));
}

}  // namespace

SvdResult svd(const In& a, SvdOptions options) {
  OpScope s(info::svd, a);
  for (int k = 0; k < 3; ++k) s.save_output(k);
  SvdResult y = parts_of(s, options.full_matrices ? Vectors::full : Vectors::reduced);
  std::vector<Result> out;
  for (Tensor* const t : {&y.u, &y.s, &y.vh}) out.push_back(OpScope::adopt(std::move(*t)));
  s.record(svd_backward);
  std::vector<Tensor> t = s.finish(std::move(out));
  return {std::move(t[0]), std::move(t[1]), std::move(t[2])};
}

Tensor svdvals(const In& a) {
  CompositeScope s(info::svdvals, a);
  require_matrices(s, 0, "a", false);
  if (s.recording()) return s.finish(svd(s.operand(0), {.full_matrices = false}).s);
  return s.finish(parts_of(s, Vectors::none).s);
}

Tensor pinv(const In& a, SingularOptions options) {
  OpScope s(info::pinv, a);
  s.save_input(0);
  s.save_output();
  Tensor y;
  {
    const SvdResult p = parts_of(s, Vectors::reduced);
    const NoGrad no_grad;
    const AutocastScope as_computed(DType::f16, false);  // the product's dtype is the result's
    const Tensor nonzero = nonzero_of(s, p.s, p.u.size(-2), p.vh.size(-1), options);
    const Tensor inverses = where(nonzero, reciprocal(where(nonzero, p.s, 1)), 0);
    y = matmul(times_columns(transposed(p.vh), inverses), transposed(p.u));
  }
  Result out = OpScope::adopt(std::move(y));
  s.record(pinv_backward);
  return s.finish(std::move(out));
}

Tensor matrix_rank(const In& a, SingularOptions options) {
  CompositeScope s(info::matrix_rank, a);
  const NoGrad no_grad;
  const Tensor values = parts_of(s, Vectors::none).s;
  const Geometry& g = s.geometry(0);
  const i64 m = g.shape[g.ndim - 2], n = g.shape[g.ndim - 1];
  return s.finish(sum(nonzero_of(s, values, m, n, options), -1));
}

namespace detail {
OpInfos svd_ops() {
  static constexpr const OpInfo* kOps[] = {&info::svd, &info::svdvals, &info::pinv,
                                           &info::matrix_rank};
  return kOps;
}
}  // namespace detail

}  // namespace wt
