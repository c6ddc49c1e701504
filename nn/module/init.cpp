#include "warptape/nn/init.h"

#include <cmath>
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/kernels/random_fill.h"
#include "warptape/kernels/run.h"

namespace wt::nn::init {
namespace {

// Numbers of the tensor's shape, made on device d, which finish() may work on.
template <class F>
void draw(const Tensor& t, DType drawn, Device d, RandomFillArgs a, F finish) {
  const RandomCall c = next_random_call(RandomStream::init);
  if (!t.device().is_meta) {
    const Tensor values = empty(t.shape(), {.dtype = drawn, .device = d});
    a.out = view_of(values.impl());
    a.key = c.key;
    a.call = c.call;
    if (values.numel() > 0) run(a, {nullptr, mode.native_stream, nullptr, d});
    finish(values);
    const NoGrad no_grad;
    Tensor to = t;
    to.copy_(values);
  }
  count_random_call(RandomStream::init, c);
}
void draw(const Tensor& t, const RandomFillArgs& a) {
  const DType own = t.dtype();
  draw(t, is_floating(own) && computes(own) ? own : f64, t.device(), a, [](const Tensor&) {});
}

// Rows of [n, m], n <= m, made orthonormal one after the other; twice, for what rounding leaves.
// On the host and in f64, whatever the tensor's device and dtype: sums in the order of a device's
// kernels would give each device, and each variant of its qr, weights of its own, and one seed is
// to give the same bits everywhere. It costs 4 n^2 m operations, once a model.
void orthonormalise(double* a, size_t n, size_t m) {
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
  draw(t, {.kind = RandomKind::init_uniform, .low = low, .high = high});
}

void normal_(const Tensor& t, double mean, double std) {
  draw(t, {.kind = RandomKind::init_normal, .mean = mean, .std = std});
}

void trunc_normal_(const Tensor& t, double mean, double std, double low, double high) {
  if (!(low < high) || !(std > 0))
    throw UsageError(str("[trunc_normal_] needs low < high and std > 0, got low ", low, ", high ",
                         high, ", std ", std));
  draw(t,
       {.kind = RandomKind::init_trunc_normal, .mean = mean, .std = std, .low = low, .high = high});
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

void dirac_(const Tensor& t, i64 groups) {
  if (t.ndim() < 3 || t.ndim() > 5 || groups < 1 || t.size(0) % groups != 0)
    throw ShapeError(str("[dirac_] needs 3 to 5 axes, the first divided by ", groups,
                         " groups, got ", t.shape()));
  const NoGrad no_grad;
  constant_(t, 0);
  const i64 out = t.size(0) / groups;
  for (i64 g = 0; g < groups; ++g)
    for (i64 c = 0; c < out && c < t.size(1); ++c) {
      Tensor middle = t[{g * out + c, c}];
      for (int d = 2; d < t.ndim(); ++d) middle = middle[t.size(d) / 2];
      constant_(middle, 1);
    }
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
  const RandomFillArgs normal{.kind = RandomKind::init_normal};
  draw(t, f64, Device::cpu(), normal, [&](const Tensor& values) {
    auto* const v = static_cast<double*>(values.impl()->data);
    if (rows <= columns) {
      orthonormalise(v, rows, columns);
    } else {  // v holds the transposed matrix, then
      orthonormalise(v, columns, rows);
      const std::vector<double> turned(v, v + rows * columns);
      for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < columns; ++j) v[i * columns + j] = turned[j * rows + i];
    }
    for (size_t i = 0; i < rows * columns; ++i) v[i] *= gain;
  });
}

}  // namespace wt::nn::init
