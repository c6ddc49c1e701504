#include "warptape/nn/init.h"

#include <cmath>
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/random.h"

namespace wt::nn::init {
namespace {

double normal_of(const PhiloxBlock& b) {
  const double u = 1.0 - uniform53(b.v[0], b.v[1]), v = uniform53(b.v[2], b.v[3]);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
}

// Element i of a call is a function of (seed, call, i) alone. `finish` sees all of them.
template <class F, class G>
void draw(const Tensor& t, F value, G finish) {
  const RandomCall c = next_random_call(RandomStream::init);
  count_random_call(RandomStream::init, c);
  if (t.device().is_meta) return;
  std::vector<double> values(static_cast<size_t>(t.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value(philox(c.key, i, c.call));
  finish(values);
  const NoGrad no_grad;
  Tensor to = t;
  to.copy_(tensor(values).view(t.shape()));
}
template <class F>
void draw(const Tensor& t, F value) {
  draw(t, value, [](std::vector<double>&) {});
}

// The standard normal distribution and its inverse: Newton's method from 0, in steps that cannot
// leave the interval in which p is.
double phi(double x) { return 0.5 * std::erfc(-x * 0.7071067811865476); }
double inverse_phi(double p, double low, double high) {
  double x = 0.5 * (low + high);
  for (int i = 0; i < 60; ++i) {
    const double off = phi(x) - p;
    (off > 0 ? high : low) = x;
    const double slope = 0.3989422804014327 * std::exp(-0.5 * x * x);
    double next = x - off / slope;
    if (!(next > low && next < high)) next = 0.5 * (low + high);
    if (std::fabs(next - x) <= 1e-12 * (1 + std::fabs(x))) return next;
    x = next;
  }
  return x;
}

// Rows of [n, m], n <= m, made orthonormal one after the other; twice, for what rounding leaves.
void orthonormalise(std::vector<double>& a, size_t n, size_t m) {
  const auto dot = [&](size_t i, size_t j) {
    double s = 0;
    for (size_t k = 0; k < m; ++k) s += a[i * m + k] * a[j * m + k];
    return s;
  };
  for (size_t i = 0; i < n; ++i) {
    for (int pass = 0; pass < 2; ++pass)
      for (size_t j = 0; j < i; ++j) {
        const double s = dot(i, j);
        for (size_t k = 0; k < m; ++k) a[i * m + k] -= s * a[j * m + k];
      }
    const double length = std::sqrt(dot(i, i));
    for (size_t k = 0; k < m; ++k) a[i * m + k] /= length;
  }
}

void check_axes(const char* who, const Tensor& t) {
  if (t.ndim() < 2) throw ShapeError(str("[", who, "] needs at least 2 axes, got ", t.shape()));
}

}  // namespace

void uniform_(const Tensor& t, double low, double high) {
  draw(t, [=](const PhiloxBlock& b) { return low + (high - low) * uniform53(b.v[0], b.v[1]); });
}

void normal_(const Tensor& t, double mean, double std) {
  draw(t, [=](const PhiloxBlock& b) { return mean + std * normal_of(b); });
}

void trunc_normal_(const Tensor& t, double mean, double std, double low, double high) {
  if (!(low < high) || !(std > 0))
    throw UsageError(str("[trunc_normal_] needs low < high and std > 0, got low ", low, ", high ",
                         high, ", std ", std));
  const double a = (low - mean) / std, b = (high - mean) / std;
  // Where the interval lies right of the mean both probabilities would be near 1 and lose digits.
  const bool flip = a > 0;
  // Beyond 38 nothing is left of the distribution.
  const double from = std::fmax(flip ? -b : a, -40), to = std::fmin(flip ? -a : b, 40);
  const double p = phi(from), q = phi(to);
  draw(t, [=](const PhiloxBlock& r) {
    const double x = inverse_phi(p + (q - p) * uniform53(r.v[0], r.v[1]), from, to);
    return std::fmin(std::fmax(mean + std * (flip ? -x : x), low), high);
  });
}

void constant_(const Tensor& t, double value) {
  const NoGrad no_grad;
  Tensor to = t;
  to.fill_(value);
}
void ones_(const Tensor& t) { constant_(t, 1); }
void zeros_(const Tensor& t) { constant_(t, 0); }

void eye_(const Tensor& t) {
  if (t.ndim() != 2) throw ShapeError(str("[eye_] needs a matrix, got ", t.shape()));
  constant_(t, 0);
  for (i64 i = 0; i < t.size(0) && i < t.size(1); ++i) constant_(t[{i, i}], 1);
}

double calculate_gain(Nonlinearity f, double slope) {
  switch (f) {
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
    default:
      return 1;
  }
}

Fans fans_of(const Tensor& t) {
  check_axes("fans_of", t);
  i64 kernel = 1;
  for (int d = 2; d < t.ndim(); ++d) kernel = checked_mul(kernel, t.size(d));
  return {t.size(1) * kernel, t.size(0) * kernel};
}

void xavier_uniform_(const Tensor& t, double gain) {
  check_axes("xavier_uniform_", t);
  const Fans f = fans_of(t);
  const double bound = gain * std::sqrt(6.0 / double(f.in + f.out));
  uniform_(t, -bound, bound);
}
void xavier_normal_(const Tensor& t, double gain) {
  check_axes("xavier_normal_", t);
  const Fans f = fans_of(t);
  normal_(t, 0, gain * std::sqrt(2.0 / double(f.in + f.out)));
}

static double kaiming_std(const char* who, const Tensor& t, const KaimingOptions& o) {
  check_axes(who, t);
  const Fans f = fans_of(t);
  const i64 fan = o.mode == FanMode::fan_in ? f.in : f.out;
  return calculate_gain(o.nonlinearity, o.a) / std::sqrt(double(fan));
}
void kaiming_uniform_(const Tensor& t, const KaimingOptions& o) {
  const double bound = std::sqrt(3.0) * kaiming_std("kaiming_uniform_", t, o);
  uniform_(t, -bound, bound);
}
void kaiming_normal_(const Tensor& t, const KaimingOptions& o) {
  normal_(t, 0, kaiming_std("kaiming_normal_", t, o));
}

void orthogonal_(const Tensor& t, double gain) {
  check_axes("orthogonal_", t);
  if (t.numel() == 0) return;
  const size_t rows = size_t(t.size(0)), columns = size_t(t.numel()) / rows;
  draw(t, normal_of, [&](std::vector<double>& v) {
    if (rows <= columns) {
      orthonormalise(v, rows, columns);
    } else {  // v holds the transposed matrix, then
      orthonormalise(v, columns, rows);
      const std::vector<double> turned = v;
      for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < columns; ++j) v[i * columns + j] = turned[j * rows + i];
    }
    for (double& x : v) x *= gain;
  });
}

}  // namespace wt::nn::init
