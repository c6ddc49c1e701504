// Variance, norms, logsumexp and products: what the rows cannot say.
#include "warptape/autograd/ops/stats.h"

#include <cmath>
#include <limits>
#include <string>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor leaf(const Values& v, const Shape& shape) {
  return tensor(v).to(f64).view(shape).clone().set_requires_grad();
}
Values gradient(const Tensor& y, const Tensor& x) { return grad(y.sum(), x).to_vector<double>(); }

}  // namespace

TEST_CASE("var and std of one element and of equal ones, as in PyTorch", "[autograd]") {
  const Tensor one = leaf({3}, {1});
  CHECK(std::isnan(var(one).item()));
  CHECK(std::isnan(wt::std(one).item()));
  CHECK(std::isnan(gradient(var(one), one)[0]));
  CHECK(std::isnan(gradient(wt::std(one), one)[0]));
  CHECK(var(one, Dims::all(), {.correction = 0}).item() == 0);
  CHECK(std::isnan(var(empty({0})).item()));
  // Fewer elements than the correction: divided by nothing.
  CHECK(var(leaf({1, 2}, {2}), Dims::all(), {.correction = 3}).item() == kInf);
  const Tensor equal = leaf({0.1, 0.1, 0.1, 2, 2, 2}, {2, 3});
  CHECK(wt::std(equal, 1).to_vector<double>() == Values{0, 0});
  CHECK(gradient(wt::std(equal, 1), equal) == Values(6, 0.0));
}

TEST_CASE("var and std: gradients at a large mean lose nothing", "[autograd]") {
  const Device d = GENERATE(Device::cpu(), Device::simt());
  for (const DType t : {f32, f64}) {
    const double step = t == f32 ? 0x1p-10 : 0x1p-39;  // units of 10,000
    Values v;
    double mean = 0, square = 0;
    for (int i = 0; i < 24; ++i) v.push_back(i * 5 % 16), mean += v.back() / 24;
    for (const double x : v) square += (x - mean) * (x - mean) / 23;
    for (const bool root : {false, true})
      for (const bool again : {false, true}) {
        Values far = v;
        for (double& one : far) one = 10000 + step * one;
        const Tensor x = tensor(far).to(t).to(d).set_requires_grad();
        const Tensor y = root ? wt::std(x) : var(x);
        const Values g = grad(y, x, {.create_graph = again}).to_vector<double>();
        for (size_t i = 0; i < v.size(); ++i) {
          const double slope = (v[i] - mean) / 23 / (root ? std::sqrt(square) : 0.5);
          const double want = slope * (root ? 1 : step);
          CHECK(std::abs(g[i] - want) <= 32 * (t == f32 ? 0x1p-24 : 0x1p-53) * (root ? 1 : step));
        }
      }
  }
}

TEST_CASE("NaN and infinities through variance, norm and logsumexp", "[autograd]") {
  const Device d = GENERATE(Device::cpu(), Device::simt());
  const Tensor x = tensor({{1.0, kNan, 2.0}, {1.0, kInf, 2.0}, {-kInf, 1.0, 2.0}}).to(d);
  for (const double v : var(x, 1).to_vector<double>()) CHECK(std::isnan(v));
  const Values n = norm(x, 2, 1).to_vector<double>();
  CHECK(std::isnan(n[0]));
  CHECK((n[1] == kInf && n[2] == kInf));
  CHECK(std::isnan(norm(x, kInf, 1).to_vector<double>()[0]));
  const Values l = logsumexp(x, 1).to_vector<double>();
  CHECK(std::isnan(l[0]));
  CHECK(l[1] == kInf);
  CHECK(std::abs(l[2] - (2 + std::log1p(std::exp(-1.0)))) < 1e-6);
}

TEST_CASE("logsumexp: rows of minus infinity are minus infinity with gradient 0", "[autograd]") {
  const Tensor x = leaf({-kInf, -kInf, 1, -kInf}, {2, 2});
  const Tensor y = logsumexp(x, 1);
  CHECK(y.to_vector<double>() == Values{-kInf, 1});
  CHECK(gradient(y, x) == Values{0, 0, 1, 0});
}

TEST_CASE("norms at 0 have gradient 0", "[autograd]") {
  for (const double p : {2.0, 1.0, 3.0, 1.5, 0.5, kInf}) {
    INFO("p " << p);
    const Tensor x = leaf({0, 0, 0, 3, 0, -4}, {2, 3});
    const Values g = gradient(norm(x, p, 1), x);
    for (const size_t i : {0u, 1u, 2u, 4u}) CHECK(g[i] == 0);
    CHECK(g[5] < 0);
  }
  CHECK(norm(zeros({0}), 2).item() == 0);
  CHECK(norm(zeros({0}), 3).item() == 0);
}

TEST_CASE("max and min share a gradient among ties; any and all count NaN as true", "[autograd]") {
  const Tensor x = leaf({1, 1, 2, 1, 5, 5}, {2, 3});
  CHECK(gradient(min(x, 1), x) == Values{.5, .5, 0, 1, 0, 0});
  CHECK(gradient(max(x, 1), x) == Values{0, 0, 1, 0, .5, .5});
  const Device d = GENERATE(Device::cpu(), Device::simt());
  CHECK(any(tensor({0.0, kNan}).to(d)).item() == 1);
  CHECK(all(tensor({1.0, kNan, -kInf}).to(d)).item() == 1);
  CHECK(any(tensor({0.0, -0.0}).to(d)).item() == 0);
  CHECK(all(tensor({1.0, -0.0}).to(d)).item() == 0);
  CHECK(any(empty({0, 2}, {.device = d}), 0).to_vector<double>() == Values{0, 0});
  CHECK(all(empty({0, 2}, {.device = d}), 0).to_vector<double>() == Values{1, 1});
  CHECK(argmin(tensor({2.0, kNan, 1.0}).to(d)).item() == 1);
  CHECK(std::isnan(min(tensor({2.0, kNan, 1.0}).to(d)).item()));
}

TEST_CASE("equal calls give equal bits, whatever the threads", "[autograd]") {
  const Device d = GENERATE(Device::cpu(), Device::simt());
  Values v;
  for (int i = 0; i < 30'011; ++i) v.push_back(std::sin(i * 0.7) + 0.01 * i);
  const Tensor x = tensor(v).to(f32).to(d);
  const int before = num_threads();
  Values first;
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    const Values now{var(x).item(),       wt::std(x).item(),   norm(x).item(),
                     logsumexp(x).item(), norm(x, 3.0).item(), prod(x.narrow(0, 100, 40)).item(),
                     sum(x).item()};
    if (first.empty()) first = now;
    CHECK(now == first);
  }
  set_num_threads(before);
}

// Element counts beyond 2^31 are counted in 64 bits: an expanded axis costs nothing on meta, and
// one with stride 0 has few elements to read in the other.
TEST_CASE("reductions of more than 2^31 elements", "[autograd]") {
  const i64 many = (i64{1} << 31) + 1;
  const Tensor meta = empty({1, 3}, {.dtype = f32, .device = Device::meta()}).expand({many, 3});
  CHECK(var(meta, 0).shape() == Shape{3});
  CHECK(norm(meta, 2, 0).shape() == Shape{3});
  CHECK(logsumexp(meta, 1).shape() == Shape{many});
  CHECK(any(meta, {0, 1}).shape() == Shape{});
  // any() stops at the first row that decides.
  CHECK(any(ones({1, 1}, {.dtype = DType::u8}).expand({many, 1})).item() == 1);
}
