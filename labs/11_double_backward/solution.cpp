#include "double_backward.h"

#include "warptape/autograd/custom.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"

namespace twice {

using namespace wt;

namespace {

struct Ripple {
  static constexpr OpInfo info{.name = "ripple"};
  Tensor forward(Save& save, const Tensor& x) const {
    save(x);
    return x * exp(square(x) * -0.5);
  }
  // Written in operators, of the saved input: under create_graph they are recorded as any others.
  Grads backward(const Saved& saved, const Tensor& gy) const {
    const Tensor& x = saved[0];
    return {gy * (1.0 - square(x)) * exp(square(x) * -0.5)};
  }
};

Tensor column(const Tensor& t, i64 k) { return t.narrow(1, k, 1); }
Tensor leaf(const Tensor& t) { return t.detach().requires_grad_(); }

}  // namespace

Tensor ripple(const Tensor& x) { return apply(Ripple{}, x); }

// The sum's derivative by row i is that of y_i alone, since no other row depends on x_i.
Tensor derivative(const Tensor& y, const Tensor& x) {
  if (!y.requires_grad()) return zeros_like(x);
  const Tensor d = grad(sum(y), x, {.create_graph = true, .allow_unused = true});
  return d.defined() ? d : zeros_like(x);
}

Tensor residual(const Field& u, const Tensor& points, double nu) {
  const Tensor p = leaf(points);
  const Tensor value = u(p);
  const Tensor first = derivative(value, p);
  const Tensor u_t = column(first, 0), u_x = column(first, 1);
  const Tensor u_xx = column(derivative(u_x, p), 1);
  return u_t + value * u_x - nu * u_xx;
}

Tensor physics_loss(const Field& u, const Tensor& inside, double nu, const Tensor& known,
                    const Tensor& values) {
  return mean(square(residual(u, inside, nu))) + mean(square(u(known) - values));
}

// The gradient's product with v is one number, whose gradient is H v.
Tensor hessian_product(const Function& f, const Tensor& x, const Tensor& v) {
  const Tensor p = leaf(x);
  return grad(sum(derivative(f(p), p) * v), p);
}

// J^T w is linear in w, whatever w is: its derivative by w, in the direction v, is J v.
Tensor push_forward(const Function& f, const Tensor& x, const Tensor& v) {
  const Tensor p = leaf(x);
  const Tensor y = f(p);
  const Tensor w = zeros_like(y).requires_grad_();
  const Tensor pulled = grad(y, p, {.grad_outputs = {w}, .create_graph = true});
  return grad(sum(pulled * v), w);
}

}  // namespace twice
