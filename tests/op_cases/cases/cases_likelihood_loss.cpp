// Rows of the negative log-likelihoods. What comes out of a loss is its mean.
#include <numbers>

#include "warptape/autograd/ops/likelihood_loss.h"
#include "warptape/tests/op_cases/cases/loss_case.h"

namespace wt_test {
namespace {

LossPart poisson(double x, double t, const PoissonNllOptions& o) {
  const double log_rate = std::log(std::fabs(x) + o.eps);
  LossPart p =
      o.log_input
          ? LossPart{std::exp(x) - t * x, std::exp(x) * (1 + std::fabs(x)) + std::fabs(t * x)}
          : LossPart{x - t * log_rate, x + std::fabs(t) * (1 + std::fabs(log_rate))};
  if (o.full && t > 1) {
    p.value += t * std::log(t) - t + 0.5 * std::log(2 * std::numbers::pi * t);
    p.magnitude += 2 * t + t * std::log(t) + 3;
  }
  return p;
}

void add_poisson(std::vector<OpCase>& rows) {
  OpCase c{"poisson_nll_loss", {}, kFloats, ResultType::loss};
  c.cancels = true;
  const auto add = [&](const Shape& shape, PoissonNllOptions o, const char* torch) {
    const double low = o.log_input ? -2 : 0.25;
    add_loss_way(c, {str(o.log_input ? "" : "rates ", o.full ? "full" : ""),
                     torch,
                     {{shape, low, 2}, {shape, 0, 3, Role::value, {1}}},
                     [o](std::span<const Tensor> in, bool each) {
                       if (each) return poisson_nll_loss(in[0], in[1], unreduced, o);
                       return poisson_nll_loss(in[0], in[1], o).mean();
                     },
                     [o](const std::vector<Array>& in) {
                       Array r{in[0].shape, {}, kTermsOfFormula};
                       for (size_t e = 0; e < in[0].v.size(); ++e) {
                         const LossPart p = poisson(in[0].v[e], in[1].v[e], o);
                         r.v.push_back(p.value), r.magnitude.push_back(p.magnitude);
                       }
                       return r;
                     }});
  };
  add({3, 5}, {}, "F.poisson_nll_loss(a, b)");
  add({2, 3, 4}, {.full = true}, "F.poisson_nll_loss(a, b, full=True)");
  add({4, 3}, {.log_input = false, .full = true, .eps = 0.1},
      "F.poisson_nll_loss(a, b, log_input=False, full=True, eps=0.1)");
  add({}, {}, "");
  add({0, 3}, {}, "");
  add({3, 257}, {.log_input = false}, "");
  const auto call = [](const Shape& t, DType dtype, double eps) {
    return [=](Device d) {
      (void)poisson_nll_loss(ones({2}, {.dtype = dtype, .device = d}), ones(t, {.device = d}),
                             {.eps = eps});
    };
  };
  const Apply both = [](const Tensor& a, const Tensor& b) { (void)poisson_nll_loss(a, b); };
  const std::string tag = "[poisson_nll_loss] ";
  c.errors = {
      undefined_operand("poisson_nll_loss", both), two_devices("poisson_nll_loss", both),
      error_input<ShapeError>("shapes",
                              tag + "input and target must have one shape: [2] and [2, 1]",
                              call({2, 1}, f32, 1)),
      error_input<UsageError>("eps", tag + "eps must be greater than 0, got 0", call({2}, f32, 0)),
      error_input<DtypeError>("dtype", tag + "expected a floating dtype", [](Device d) {
        const Tensor x = ones({2}, {.dtype = DType::i64, .device = d});
        (void)poisson_nll_loss(x, x);
      })};
  rows.push_back(std::move(c));
}

void add_gaussian(std::vector<OpCase>& rows) {
  OpCase c{"gaussian_nll_loss", {}, kFloats, ResultType::loss};
  c.cancels = true;
  const auto add = [&](const Shape& shape, const Shape& var, GaussianNllOptions o,
                       const char* torch) {
    add_loss_way(c, {o.full ? "full" : "",
                     torch,
                     {{shape}, {shape}, {var, 0.25, 2}},
                     [o](std::span<const Tensor> in, bool each) {
                       if (each) return gaussian_nll_loss(in[0], in[1], in[2], unreduced, o);
                       return gaussian_nll_loss(in[0], in[1], in[2], o).mean();
                     },
                     [o](const std::vector<Array>& in) {
                       Array r{in[0].shape, {}, kTermsOfFormula};
                       Array var = in[2];
                       if (var.shape.ndim() < r.shape.ndim()) var.shape.push_back(1);
                       for (i64 e = 0; e < count(r.shape); ++e) {
                         const double x = in[0].v[size_t(e)], t = in[1].v[size_t(e)];
                         const double v = std::fmax(at(var, unravel(e, r.shape)), o.eps);
                         const double square = (x - t) * (x - t) / v;
                         const double wide = std::fabs(x - t) * (std::fabs(x) + std::fabs(t)) / v;
                         const double constant = o.full ? 0.5 * std::log(2 * std::numbers::pi) : 0;
                         r.v.push_back(0.5 * (std::log(v) + square) + constant);
                         r.magnitude.push_back(1 + std::fabs(std::log(v)) + 2 * wide + constant);
                       }
                       return r;
                     }});
  };
  add({3, 5}, {3, 5}, {}, "F.gaussian_nll_loss(a, b, c)");
  add({2, 3, 4}, {2, 3, 1}, {.full = true}, "F.gaussian_nll_loss(a, b, c, full=True)");
  add({4, 3}, {4}, {}, "F.gaussian_nll_loss(a, b, c)");
  add({3}, {}, {.full = true, .eps = 0.1}, "");
  add({}, {}, {}, "");
  add({0, 3}, {0, 1}, {}, "");
  add({3, 257}, {3, 257}, {}, "");
  const auto call = [](const Shape& t, const Shape& v, double variance, double eps) {
    return [=](Device d) {
      (void)gaussian_nll_loss(ones({2, 3}, {.device = d}), ones(t, {.device = d}),
                              full(v, variance, {.device = d}), {.eps = eps});
    };
  };
  const std::string tag = "[gaussian_nll_loss] ";
  c.errors = {
      undefined_operand("gaussian_nll_loss",
                        [](const Tensor& a, const Tensor& b) { (void)gaussian_nll_loss(a, b, b); }),
      error_input<ShapeError>("shapes", tag + "input and target must have one shape",
                              call({3}, {2, 3}, 1, 1)),
      error_input<ShapeError>("var", tag + "var must have the input's shape [2, 3], or 1 in place",
                              call({2, 3}, {3}, 1, 1)),
      error_input<UsageError>("eps", tag + "eps must be greater than 0, got -1",
                              call({2, 3}, {2, 3}, 1, -1))};
  rows.push_back(std::move(c));
}

void add_likelihood_loss_cases(std::vector<OpCase>& rows) {
  add_poisson(rows);
  add_gaussian(rows);
}

const CaseFile file{add_likelihood_loss_cases};

}  // namespace
}  // namespace wt_test
