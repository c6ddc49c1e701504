// Every variant of the softmax kernels against f64 loops.
#include "warptape/kernels/softmax.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/kernels/cpu/exp_rows.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/tests/support/variants.h"
#include "warptape/tests/tolerance.h"

using namespace wt_test;

namespace {

// A tensor over whole-number positions: x[outer][i][inner], logical order.
struct Case {
  Shape shape;
  int axis;
  i64 outer, length, inner;
};
Case make_case(const Shape& shape, int axis) {
  Case c{shape, axis, 1, shape[axis], 1};
  for (int d = 0; d < axis; ++d) c.outer *= shape[d];
  for (int d = axis + 1; d < shape.ndim(); ++d) c.inner *= shape[d];
  return c;
}

template <class F>
void for_each_row_of(const Case& c, F f) {
  for (i64 o = 0; o < c.outer; ++o)
    for (i64 k = 0; k < c.inner; ++k)
      f([&](i64 i) { return size_t((o * c.length + i) * c.inner + k); });
}

std::vector<double> softmax_loops(const Case& c, const std::vector<double>& x, bool log) {
  std::vector<double> y(x.size());
  for_each_row_of(c, [&](auto at) {
    double max = -INFINITY, sum = 0;
    for (i64 i = 0; i < c.length; ++i) max = std::fmax(max, x[at(i)]);
    for (i64 i = 0; i < c.length; ++i) sum += std::exp(x[at(i)] - max);
    for (i64 i = 0; i < c.length; ++i)
      y[at(i)] = log ? x[at(i)] - max - std::log(sum) : std::exp(x[at(i)] - max) / sum;
  });
  return y;
}

std::vector<double> backward_loops(const Case& c, const std::vector<double>& gy,
                                   const std::vector<double>& y, bool log) {
  std::vector<double> gx(y.size());
  for_each_row_of(c, [&](auto at) {
    double sum = 0;
    for (i64 i = 0; i < c.length; ++i) sum += log ? gy[at(i)] : gy[at(i)] * y[at(i)];
    for (i64 i = 0; i < c.length; ++i)
      gx[at(i)] = log ? gy[at(i)] - std::exp(y[at(i)]) * sum : y[at(i)] * (gy[at(i)] - sum);
  });
  return gx;
}

void check_close(const Tensor& got, const std::vector<double>& want, DType t, double terms,
                 double magnitude) {
  const std::vector<double> values = to_doubles(got);
  REQUIRE(values.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (close(values[i], want[i], error_bound(t, terms, want[i], magnitude + std::fabs(want[i]))))
      continue;
    CAPTURE(i, values[i], want[i]);
    FAIL("value out of bounds");
  }
}

// Roundings of a probability: of the sum, of the maths, and of 16-bit storage what __expf is off
// by, above and below the line.
double terms_of(const Case& c, DType t, const std::vector<double>& x) {
  double low = INFINITY, high = -INFINITY;
  for (double v : x)
    if (std::isfinite(v)) low = std::fmin(low, v), high = std::fmax(high, v);
  const double exponentials = is_half(t) && high > low ? 2 * terms_of_fast_exp(high - low) : 0;
  return double(c.length) + 16 + exponentials;
}

// Forward and backward of x (any layout, on its device) by every variant.
void check_all(const Tensor& x, int axis, std::set<std::string>* ran) {
  const Case c = make_case(x.shape(), axis);
  const DType t = x.dtype();
  const std::vector<double> values = to_doubles(x);
  const double terms = terms_of(c, t, values);
  for (bool log : {false, true}) {
    CAPTURE(log, x.shape(), axis, dtype_name(t));
    const std::vector<double> want = softmax_loops(c, values, log);
    Tensor y = empty_like(x);
    double scale = log ? 0 : 1;
    for (double v : want)
      if (log && std::isfinite(v)) scale = std::fmax(scale, std::fabs(v));
    for_each_variant(
        x.device(), SoftmaxForwardArgs{view(y), view(x), axis, log},
        [&] {
          check_close(y, want, t, terms, log ? scale : 0);
          y.fill_(7);
        },
        ran);

    const Tensor ys = to_tensor(want, x.shape(), t, x.device());
    const std::vector<double> g = random_values(x.numel(), 5);
    const Tensor gy = to_tensor(g, x.shape(), t, x.device());
    const std::vector<double> want_gx = backward_loops(c, to_doubles(gy), to_doubles(ys), log);
    Tensor gx = empty_like(x);
    for_each_variant(
        x.device(), SoftmaxBackwardArgs{view(gx), view(gy), view(ys), axis, log},
        [&] {
          check_close(gx, want_gx, t, terms, log ? double(c.length) : 1);
          gx.fill_(7);
        },
        ran);
  }
}

}  // namespace

TEST_CASE("softmax kernels: every variant, dtype and length against f64 loops") {
  std::set<std::string> ran;
  for (Device d : kernel_devices())
    for (DType t : {f32, f64, f16, bf16})
      for (i64 n : {1, 2, 7, 10, 32, 33, 64, 255, 300, 1024, 1025, 2500}) {
        const i64 rows = n > 300 ? 2 : 5;
        check_all(to_tensor(random_values(rows * n, u64(n), 6), {rows, n}, t, d), 1, &ran);
      }
  check_ran(ran, {"cpu:reference", "simt:naive", "simt:warp", "simt:block"});
}

TEST_CASE("softmax kernels: a row beyond a small chip's shared memory is read again") {
  const DeviceLimits l4{8, 9, 58, 99 * 1024};  // without a row of its length a block cannot start
  detail::set_simt_limits(&l4);
  std::set<std::string> ran;
  const i64 n = 100 * 1024 / 4;
  check_all(to_tensor(random_values(n, 3, 6), {1, n}, f32, Device::simt()), 1, &ran);
  detail::set_simt_limits(nullptr);
  CHECK(ran.count("simt:block") == 1);
}

TEST_CASE("softmax kernels: any axis and layout") {
  std::set<std::string> ran;
  for (Device d : kernel_devices())
    for (DType t : {f32, f64, bf16}) {
      const Tensor x = to_tensor(random_values(3 * 5 * 40, 3, 4), {3, 5, 40}, t, d);
      for (int axis : {0, 1, 2}) check_all(x, axis, &ran);
      check_all(x.transpose(0, 2), 0, &ran);
      check_all(x.transpose(1, 2), 2, &ran);
      check_all(x.permute({2, 0, 1}), 1, &ran);
      check_all(x.slice(2, {1, 36, 1}), 2, &ran);  // rows that begin between 16-byte boundaries
      check_all(x.slice(2, {0, 40, 3}), 2, &ran);  // elements that are no neighbours
      check_all(x.select(1, 2), 1, &ran);
      check_all(x.slice(0, {1, 2}).expand({4, 5, 40}), 2, &ran);
      check_all(x.slice(0, {1, 2}).expand({4, 5, 40}), 0, &ran);
    }
  check_ran(ran, {"simt:column"});
}

TEST_CASE("softmax kernels: empty tensors and single elements") {
  for (Device d : kernel_devices()) {
    for (const Shape& shape : {Shape{0, 4}, Shape{4, 0}, Shape{3, 0, 2}, Shape{1, 1}})
      for (int axis = 0; axis < shape.ndim(); ++axis)
        check_all(zeros(shape, {.device = d}), axis, nullptr);
    Tensor x = zeros({}, {.device = d}), y = empty_like(x);
    for_each_variant(d, SoftmaxForwardArgs{view(y), view(x), 0, false}, [&] {
      CHECK(y.item() == 1);
      y.fill_(7);
    });
  }
}

TEST_CASE("softmax kernels: infinities and NaN stay in their row") {
  const double inf = INFINITY, nan = NAN;
  for (Device d : kernel_devices())
    for (DType t : {f32, f64, f16})
      for (i64 n : {6, 40, 1030}) {
        std::vector<double> v = random_values(5 * n, 9);
        const auto at = [&](i64 row, i64 i) -> double& { return v[size_t(row * n + i)]; };
        at(0, 0) = -inf;                              // masked: probability 0
        for (i64 i = 0; i < n; ++i) at(1, i) = -inf;  // all masked: NaN
        at(2, 0) = nan;                               // NaN first: must not be lost
        at(3, n - 1) = inf;
        check_all(to_tensor(v, {5, n}, t, d), 1, nullptr);
        check_all(to_tensor(v, {5, n}, t, d).transpose(0, 1), 0, nullptr);
      }
}

TEST_CASE("softmax kernels: large offsets cancel") {
  for (Device d : kernel_devices()) {
    std::vector<double> v = random_values(3 * 20, 4, 3);
    for (double& x : v) x = std::round(x * 64) / 64 + 3000;
    check_all(to_tensor(v, {3, 20}, f32, d), 1, nullptr);
  }
}

TEST_CASE("softmax kernels: the largest element is found at every place") {
  // Less another element of its row it overflows exp().
  for (Device d : kernel_devices())
    for (const i64 n : {19, 67}) {
      std::vector<double> v(size_t(n * n), -100);
      for (i64 i = 0; i < n; ++i) v[size_t(i * n + i)] = 100;
      check_all(to_tensor(v, {n, n}, f32, d), 1, nullptr);
      check_all(to_tensor(v, {n, n}, f32, d), 0, nullptr);
    }
}

TEST_CASE("softmax kernels: outputs may be inputs") {
  for (Device d : kernel_devices())
    for (i64 n : {20, 1500}) {
      const Tensor x = to_tensor(random_values(4 * n, 2, 3), {4, n}, f32, d);
      const Case c = make_case({4, n}, 1);
      const std::vector<double> y = softmax_loops(c, to_doubles(x), false);
      Tensor work = x.clone();
      for_each_variant(d, SoftmaxForwardArgs{view(work), view(work), 1, false}, [&] {
        check_close(work, y, f32, double(n), 1);
        work.copy_(x);
      });
      const Tensor ys = to_tensor(y, {4, n}, f32, d);
      const std::vector<double> gx = backward_loops(c, to_doubles(x), to_doubles(ys), true);
      for_each_variant(d, SoftmaxBackwardArgs{view(work), view(work), view(ys), 1, true}, [&] {
        check_close(work, gx, f32, double(n), double(3 * n));
        work.copy_(x);
      });
    }
}

TEST_CASE("rows of exponentials: every instruction set, every tail", "[kernels]") {
  const int before = cpu_isa();
  const int isa = GENERATE(0, 1, 2);
  if (isa > before) return;
  cpu_isa_in_use = isa;
  const ExpRows& with = exp_rows();
  cpu_isa_in_use = before;
  for (i64 n = 0; n < 140; ++n) {
    INFO("instruction set " << isa << ", " << n << " elements");
    std::vector<float> x, to(size_t(n) + 1, 7), gx = to, y = to;
    double largest = -INFINITY, sum = 0;
    for (i64 i = 0; i < n; ++i) x.push_back(i % 9 == 4 ? -INFINITY : float((i * 37) % 64) / 4);
    for (const float v : x) largest = std::fmax(largest, v);
    for (const float v : x) sum += std::exp(v - 16.0);
    CHECK(with.largest(x.data(), n) == float(largest));
    for (const auto f : {with.sum, with.kept, with.shares})
      CHECK(std::abs(f(to.data(), x.data(), n, 16, 0) - sum) <= 1e-6 * sum);
    with.gradient(gx.data(), x.data(), n, 15, 1, 0.5f, 3, 0);
    with.scale(y.data(), to.data(), n, 2, n % 2 == 0);
    for (i64 i = 0; i < n; ++i) {
      const double e = std::exp(x[size_t(i)] - 16.0);
      CHECK(std::abs(to[size_t(i)] - e) <= 2e-7 * e);
      CHECK(std::abs(gx[size_t(i)] - 3 * (e - 0.5)) <= 4e-7 * (e + 0.5) * 3);
      CHECK(y[size_t(i)] == 2 * to[size_t(i)]);
    }
    CHECK((to[size_t(n)] == 7 && gx[size_t(n)] == 7 && y[size_t(n)] == 7));
    // Three rows of n columns; the largest are infinite in some, NaN stays.
    std::vector<float> p(size_t(3 * n) + 1, 1), most(size_t(n) + 64, -INFINITY),
        sums(size_t(n) + 64, 0);
    for (i64 c = 0; c < n; ++c) {
      if (c % 5 == 1) p[size_t(n + c)] = INFINITY;
      if (c % 5 == 2) p[size_t(c)] = p[size_t(n + c)] = p[size_t(2 * n + c)] = -INFINITY;
      if (c % 5 == 3) p[size_t(n + c)] = NAN;
    }
    with.columns(most.data(), sums.data(), p.data(), 2, n, n);
    with.columns(most.data(), sums.data(), p.data() + 2 * n, 1, n, n);
    for (i64 c = 0; c < n; ++c) {
      const float m = most[size_t(c)], s = sums[size_t(c)];
      if (c % 5 == 1) CHECK((m == INFINITY && s == 1));
      if (c % 5 == 2) CHECK((m == -INFINITY && s > 0));
      if (c % 5 == 3) CHECK((m == 1 && s != s));
      if (c % 5 == 0 || c % 5 == 4) CHECK((m == 1 && s == 3));
    }
  }
}

// Rows of several runs, beyond what is kept on the stack, with and without streaming.
TEST_CASE("softmax: long rows whose maximum grows", "[kernels]") {
  const i64 n = 10'007, rows = GENERATE(6, 900);
  std::vector<float> v(size_t(n * rows));
  for (i64 i = 0; i < n * rows; ++i) {
    const i64 row = i / n % 6, at = i % n;
    v[size_t(i)] = float(at % 77) / 16;
    if (row == 1) v[size_t(i)] += float(at) / 50;         // grows by 200
    if (row == 2 && at < 5000) v[size_t(i)] = -INFINITY;  // runs of nothing
    if (row == 3) v[size_t(i)] -= float(at) / 50 + 100;   // falls, and far from 0
    if (row == 4) v[size_t(i)] = -INFINITY;               // NaN everywhere
    if (row == 5 && at == 7000) v[size_t(i)] = NAN;       // too
  }
  const Tensor x = tensor(v).view({rows, n});
  const Case c = make_case({6, n}, 1);
  const std::vector<double> head(v.begin(), v.begin() + i64(6) * n);
  for (const bool log : {false, true}) {
    const Tensor y = empty({rows, n});
    run(SoftmaxForwardArgs{view_of(y.impl()), view_of(x.impl()), 1, log}, Launch{});
    const std::vector<float> got = y.to_vector<float>();
    const std::vector<double> want = softmax_loops(c, head, log);
    double worst = 0;
    i64 not_nan = 0;
    for (i64 i = 0; i < n * rows; ++i) {
      const double g = got[size_t(i)], w = want[size_t(i % (6 * n))];
      if (i / n % 6 >= 4)
        not_nan += g == g;
      else if (!(g == w))
        worst = std::fmax(worst, std::abs(g - w) / (log ? std::abs(w) + 1 : w + 1e-30));
    }
    INFO((log ? "log_softmax, " : "softmax, ") << rows << " rows");
    CHECK(not_nan == 0);
    CHECK(worst <= 3e-5);  // x - max, of up to 300, is rounded
  }
}
