// Reports of wrong first and second derivatives. The right values are closed forms.
#include "warptape/autograd/custom.h"
#include "warptape/autograd/functional.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/autograd/vmap.h"
#include "warptape/tests/reports/report.h"

using namespace wt;

namespace wt_test {
namespace {

Tensor number(double at, Device d) {
  return tensor(at, {.dtype = f64, .device = d, .requires_grad = true});
}
Tensor constant(double value, Device d) { return tensor(value, {.dtype = f64, .device = d}); }

// f'' of a function of one number.
template <class F>
Tensor second(F f, double at, Device d) {
  const Tensor t = number(at, d);
  return grad(grad(f(t), t, {.create_graph = true}), t);
}

// x^2 as an operator of one's own, differentiated by its own backward.
struct OwnSquare {
  static constexpr OpInfo info{.name = "own_square"};
  Tensor forward(Save& save, const Tensor& x) const {
    save(x);
    return x * x;
  }
  Grads backward(const Saved& s, const Tensor& gy) const { return {2 * s[0] * gy}; }
};

Tensor two_by_two(Device d) {
  return tensor({{1.3, 0.4}, {-0.7, 0.9}}, {.dtype = f64, .device = d});
}
// The Hessian of det of a 2 x 2 matrix, whatever the matrix.
const Values kDetHessian{0, 0, 0, 1, 0, 0, -1, 0, 0, -1, 0, 0, 1, 0, 0, 0};

// d^2 det / dA_ij dA_kl at the identity of three rows: 1 for ij = ii, kl = jj, -1 for ij, kl = ji.
Values det_hessian_of_identity() {
  Values v;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 3; ++k)
        for (int l = 0; l < 3; ++l)
          v.push_back(i == j && k == l && i != k ? 1 : i == l && j == k && i != j ? -1 : 0);
  return v;
}

Tensor cumprods(Device d) {
  return second(
      [d](const Tensor& t) {
        const Tensor x = stack({t, t + 1, 2 - t, t - 1, 2 * t + 1, t + 3}).reshape({2, 3});
        return sum(cumprod(x, -1) * given(d, {1, 2, 3, 4, 5, 6}, f64).reshape({2, 3}));
      },
      1, d);
}

Tensor layer_norms(Device d) {
  return second(
      [d](const Tensor& t) {
        const Tensor x = stack({t, constant(0, d)}).unsqueeze(0);
        return sum(layer_norm(x, {2}, given(d, {1, 2}, f64), {.eps = 0.25}));
      },
      0.7, d);
}

Tensor batch_norms(Device d) {
  return second(
      [d](const Tensor& t) {
        std::vector<Tensor> x;
        for (int i = 0; i < 8; ++i) x.push_back((i + 1) * t + (i % 3 - 1) * t * t + i);
        const Tensor y = batch_norm(stack(x).reshape({2, 2, 2}), given(d, {1.5, -0.5}, f64),
                                    given(d, {0.25, 1}, f64), {.training = true, .eps = 0.25});
        return sum(y.flatten() * arange(1, 9, 1, {.dtype = f64, .device = d}));
      },
      -6, d);
}

Tensor dets(Device d) {
  return second(
      [d](const Tensor& t) {
        const Tensor one = constant(1, d);
        return det(stack({t + 2, one, one, 2 * t + 3}).reshape({2, 2}));
      },
      0.7, d);
}

Tensor solves(Device d) {
  return second(
      [d](const Tensor& t) {
        const Tensor one = constant(1, d);
        const Tensor a = stack({t, one, constant(0, d), t * t}).reshape({2, 2});
        return sum(solve(a, given(d, {1, 1}, f64).unsqueeze(1)));
      },
      2, d);
}

Tensor logaddexps(Device d) {
  const auto f = [d](const Tensor& t) {
    const Tensor x = stack({t + 2, -2 * t}).reshape({2, 1});
    const Tensor y = stack({t / 2 - 1, 3 - t, 2 * t + 1}).reshape({1, 3});
    return sum(logaddexp(x, y) * given(d, {1, 2, -1, 3, -2, 4}, f64).reshape({2, 3}));
  };
  return stack({second(f, -800, d), second(f, 0.5, d)});
}

Tensor cholesky_inverses(Device d) {
  const Tensor one = constant(1, d), zero = constant(0, d);
  return jvp(
             [&](const Tensor& t) {
               const Tensor l = stack({t + one, zero, one, 2 * one}).reshape({2, 2});
               return sum(inverse(matmul(l, l.t())));
             },
             number(0.7, d), one)
      .product;
}

Tensor cholesky_solves(Device d) {
  const Tensor one = constant(1, d), zero = constant(0, d);
  return jvp(
             [&](const Tensor& t) {
               const Tensor l =
                   stack({2 * one, zero, t, 3 * one, 3 * one, zero, 2 * t + 1, 2 * one});
               const Tensor lower = l.reshape({2, 2, 2}), b = given(d, {1, 2, -1, 3}, f64);
               const Tensor both = b.reshape({1, 2, 2}).expand({2, 2, 2});
               const Tensor x = solve_triangular(lower.transpose(-2, -1),
                                                 solve_triangular(lower, both, {.upper = false}),
                                                 {.upper = true});
               return sum(x.flatten() * given(d, {1, 2, 3, 4, 2, -1, 4, 3}, f64));
             },
             number(-7, d), one)
      .product;
}

Tensor fourth_powers(Device d) {
  const Tensor x = number(3, d);
  const Tensor y = apply(OwnSquare{}, apply(OwnSquare{}, x));
  const Tensor first = grad(y, x, {.create_graph = true});
  const Tensor next = grad(first, x, {.create_graph = true});
  return stack({first.detach(), next.detach(), grad(next, x)});
}

Tensor log_dets(Device d) {
  const Tensor a = two_by_two(d);
  const SlogdetResult r = slogdet(stack({a, flip(a, 0)}));
  return cat({r.sign, r.logabsdet});
}
Tensor gradients_of_det_in_vmap(Device d) {
  const Tensor a =
      tensor({{1.0, 2.0, 3.0, 4.0}, {2.0, 4.0, 1.0, 2.0}}, {.dtype = f64, .device = d});
  return vmap([](const Tensor& m) { return jacobian([](const Tensor& x) { return det(x); }, m); })(
      a.reshape({2, 2, 2}));
}

}  // namespace

const Reports& derivative_reports() {
  static const Reports all = {
      {"pytorch#196701",
       "the second derivative of weighted cumprods with a factor 0 is 68",
       "144: the sum is a polynomial",
       cumprods,
       {144}},
      {"pytorch#196700",
       "the second derivative of layer_norm of (t, 0), eps 1/4, has the wrong sign",
       "3 t / (1 + t^2)^2.5, the second derivative of what it is: -t / sqrt(1 + t^2)",
       layer_norms,
       {0.77491420795909417585},
       16,
       4},
      {"pytorch#196699",
       "the second derivative of batch_norm in training is -2.13",
       "-0.20703: the formula in 60 digits, differences",
       batch_norms,
       {-0.20703015646993195974},
       32,
       64},
      {"pytorch#196696",
       "the second derivative of det of a matrix of linear functions is 8.83",
       "4: det = (t + 2) (2 t + 3) - 1",
       dets,
       {4},
       8,
       16},
      {"pytorch#192540", "Hessians of det, slogdet and solve are wrong, silently",
       "det of 2 x 2: +-1 and 0, whatever the matrix",
       [](Device d) {
         return hessian([](const Tensor& a) { return det(a); }, two_by_two(d)).flatten();
       },
       kDetHessian, 8, 2},
      {"pytorch#192540",
       "the same of slogdet",
       "-(A^-1)_jk (A^-1)_li, in 60 digits",
       [](Device d) {
         return hessian([](const Tensor& a) { return slogdet(a).logabsdet; }, two_by_two(d))
             .flatten();
       },
       {-0.38525564803804994055, -0.29964328180737217598, 0.17122473246135552913,
        0.13317479191438763377, -0.29964328180737217598, -0.2330558858501783591,
        -0.55648038049940546968, -0.43281807372175980975, 0.17122473246135552913,
        -0.55648038049940546968, -0.076099881093935790725, 0.24732461355529131986,
        0.13317479191438763377, -0.43281807372175980975, 0.24732461355529131986,
        -0.80380499405469678954},
       16,
       2},
      {"pytorch#192540",
       "the same of solve",
       "of ((t, 1), (0, t^2)) x = (1, 1) the sum is 1/t - 1/t^3 + 1/t^2: 2/t^3 - 12/t^5 + 6/t^4",
       solves,
       {0.25},
       16,
       2},
      {"pytorch#192521", "the Hessian of det at the identity is NaN",
       "1 for two places of the diagonal, -1 for a place and its mirror image, else 0",
       [](Device d) {
         return hessian([](const Tensor& a) { return det(a); }, eye(3, {.dtype = f64, .device = d}))
             .flatten();
       },
       det_hessian_of_identity(), 8, 2},
      {"pytorch#196704",
       "the second derivative of logaddexp of numbers far apart is NaN",
       "less than 1e-173 at -800; 9.2234 at 1/2, differences in 60 digits",
       logaddexps,
       {0, 9.2233939118536119301},
       16,
       32},
      {"pytorch#196682",
       "the derivative of the inverse of L L^T is -0.499",
       "-5 / (2 a^3) + 1 / (2 a^2), a = 1.7",
       cholesky_inverses,
       {-0.33584368003256665988},
       16,
       4},
      {"pytorch#196694",
       "the derivative of solving with L L^T is -410.2, through the factor",
       "-11/3: explicit inverses",
       cholesky_solves,
       {-11.0 / 3},
       64,
       256},
      {"pytorch#197867",
       "derivatives of x^4 as a square of squares by one's own function: 108, 0, 0",
       "4 x^3, 12 x^2, 24 x at 3",
       fourth_powers,
       {108, 108, 72}},
      {"pytorch#176415",
       "logarithms of determinants in a batch differ between libraries where some "
       "are negative",
       "signs 1 and -1 for a matrix and its rows swapped, log(1.3 0.9 + 0.4 0.7)",
       log_dets,
       {1, -1, 0.37156355643248304, 0.37156355643248304},
       16,
       2},
      {"pytorch#192521",
       "gradients of det in a transformed function take another path than eager ones",
       "the cofactors in vmap too, of two matrices, the second one singular",
       gradients_of_det_in_vmap,
       {4, -3, -2, 1, 2, -1, -4, 2},
       16,
       8},
  };
  return all;
}

}  // namespace wt_test
