// Systems, inverses and determinants. The factors are found without a gradient; the derivatives are
// written in the same operators.
#include "warptape/autograd/ops/inverse.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/decompose.h"
#include "warptape/autograd/ops/diagonal.h"
#include "warptape/autograd/ops/gather.h"
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
}  // namespace info

namespace {

Tensor flipped(const Tensor& t) { return transpose(t, -2, -1); }
Shape leading(const Geometry& g) { return Shape(g.shape, g.ndim - 2); }

void require_square(const OpScope& s) {
  const Geometry& g = s.geometry(0);
  if (g.ndim < 2)
    s.fail<ShapeError>(str("a must have at least 2 dimensions, got shape ", shape_of(g)));
  if (g.shape[g.ndim - 2] != g.shape[g.ndim - 1])
    s.fail<ShapeError>(str("a must be square, got ", g.shape[g.ndim - 2], " rows and ",
                           g.shape[g.ndim - 1], " columns"));
  if (s.dtype() != DType::f32 && s.dtype() != DType::f64)
    s.fail<DtypeError>(str("a must be f32 or f64, got ", dtype_name(s.dtype())), ".to(f32)");
}

struct Factors {
  Tensor lu, rows, sign, info;
};
// Of operand 0; without recording.
Factors factors_of(const OpScope& s) {
  const NoGrad no_grad;
  const Tensor a = contiguous(detach(Tensor(detail::retained(s.impl(0)))));
  const Shape batch = leading(s.geometry(0));
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
  if (s.device().is_meta || s.geometry(0).numel == 0) return;
  const NoGrad no_grad;
  const std::vector<i32> found = f.info.to_vector<i32>();
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] != 0)
      s.fail<NumericError>(str("matrix", s.geometry(0).ndim > 2 ? str(" ", i) : "",
                               " is singular: its pivot ", found[i], " is 0"));
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
  const Tensor gb = solve(flipped(a), g.take_grad());
  if (g.wants(0)) g.put_broadcast(0, neg(matmul(gb, flipped(x))));
  if (g.wants(1)) g.put_broadcast(1, gb);
}
void inverse_backward(Backward& g) {
  const Tensor back = flipped(g.saved(0));
  g.put(0, neg(matmul(matmul(back, g.take_grad()), back)));
}
void det_backward(Backward& g) {
  const Tensor share = mul(g.take_grad(), g.saved(1));
  g.put(0, mul(unsqueeze(unsqueeze(share, -1), -1), flipped(inverse(g.saved(0)))));
}

}  // namespace

Tensor solve(const In& a, const In& b) {
  OpScope s(info::solve, a, b);
  require_square(s);
  const Geometry &p = s.geometry(0), &q = s.geometry(1);
  if (q.ndim < 2)
    s.fail<ShapeError>(str("b must have at least 2 dimensions, got shape ", shape_of(q)));
  const i64 n = p.shape[p.ndim - 1], rows = q.shape[q.ndim - 2];
  if (n != rows) s.fail<ShapeError>(str("a has ", n, " columns, b has ", rows, " rows"));
  Shape right = broadcast_operands(s, leading(p), leading(q));
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
  require_square(s);
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
  require_square(s);
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

namespace detail {
OpInfos inverse_ops() {
  static constexpr const OpInfo* kOps[] = {&info::solve, &info::inverse, &info::det};
  return kOps;
}
}  // namespace detail

}  // namespace wt
