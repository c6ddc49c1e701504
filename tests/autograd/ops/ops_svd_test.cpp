// Singular values and determinants: what the rows cannot say.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/decompose.h"
#include "warptape/autograd/ops/diagonal.h"
#include "warptape/autograd/ops/inverse.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/svd.h"
#include "warptape/autograd/vmap.h"
#include "warptape/core/device.h"
#include "warptape/core/factories.h"
#include "warptape/core/operators.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"

using namespace wt;

namespace {
using Values = std::vector<double>;

// Of full rank: a wave of one frequency would have rank 2.
Tensor waves(const Shape& shape) {
  Values v(size_t(numel_of(shape)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(double(i) * double(i) * 0.7 + 0.2);
  return tensor(v).view(shape).to(f64);
}
// Calls f on every device under each of its variants.
void under_each_svd(const std::function<void(Device)>& f) {
  for (const Device d : wt_test::kernel_devices())
    for (const ContractInfo& c : all_contracts()) {
      if (c.name != std::string("svd")) continue;
      for (int i = 0; i < c.count(d.kind); ++i) {
        INFO(device_kind_name(d.kind) << " " << c.variant(d.kind, i).name);
        const VariantScope scope{"svd", c.variant(d.kind, i).name};
        f(d);
      }
    }
}
Tensor at_home(const Tensor& t) { return t.to(Device::cpu()).to(f64); }
// The largest difference of p, wherever it is, to q.
double distance(const Tensor& p, const Tensor& q) { return max(abs(at_home(p) - q)).item(); }

// How far u and vh are from orthonormal, and u s vh from x / scale.
void check_parts(const Tensor& x, double scale, bool full, DType t, Device d, double bound) {
  const SvdResult y = svd(mul(x, scale).to(t).to(d), {.full_matrices = full});
  const i64 m = x.size(-2), n = x.size(-1), k = std::min(m, n);
  CHECK(y.u.size(-1) == (full ? m : k));
  CHECK(y.vh.size(-2) == (full ? n : k));
  const Tensor u = at_home(y.u), vh = at_home(y.vh), s = div(at_home(y.s), scale);
  CHECK(distance(matmul(u.transpose(-2, -1), u), eye(u.size(-1), {.dtype = f64})) < bound);
  CHECK(distance(matmul(vh, vh.transpose(-2, -1)), eye(vh.size(-2), {.dtype = f64})) < bound);
  const Tensor left = mul(slice(u, -1, {0, k}), s.unsqueeze(-2));
  CHECK(distance(matmul(left, slice(vh, -2, {0, k})), x) < 4 * bound);
  const Values values = s.reshape({-1}).to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(values[i] >= 0);
    if (i % size_t(k) != 0) CHECK(values[i] <= values[i - 1]);
  }
  const Tensor alone = svdvals(mul(x, scale).to(t).to(d));
  CHECK(distance(div(at_home(alone), scale), s) < 4 * bound);
}
// In both dtypes, with whole bases and without: crosswise, where all four would take too long.
void check_all_parts(const Tensor& x, Device d) {
  const bool tall = x.size(-2) > x.size(-1);
  for (const DType t : {f64, f32})
    for (const bool full : {false, true})
      if (wt_test::whole_walk() || full == ((t == f64) == tall))
        check_parts(x, 1, full, t, d, t == f64 ? 2e-13 : 1e-4);
}
}  // namespace

TEST_CASE("svd of more rows than a warp has lanes, large and small ones", "[autograd]") {
  // Work grows with the third power of a side.
  const std::vector<Shape> shapes =
      wt_test::whole_walk() ? std::vector{Shape{2, 45, 34}, Shape{2, 34, 45}, Shape{40, 40}}
                            : std::vector{Shape{2, 35, 33}, Shape{33, 36}, Shape{34, 34}};
  for (const Shape& shape : shapes) {
    INFO("rows " << shape[shape.ndim() - 2]);
    const Tensor x = waves(shape);
    under_each_svd([&](Device d) { check_all_parts(x, d); });
  }
  // Squares of 1e25 are more than f32 can hold, those of 1e-25 less.
  for (const double scale : {1e25, 1e-25}) {
    INFO("scale " << scale);
    const Tensor x = waves({37, 34});
    under_each_svd([&](Device d) { check_parts(x, scale, true, f32, d, 1e-4); });
  }
}

TEST_CASE("svd: values of 0 and equal ones have orthonormal vectors all the same", "[autograd]") {
  const Tensor column = waves({37, 1}), row = waves({1, 35}) + 0.5;
  const Tensor one = matmul(column, row);                                        // of rank 1
  const Tensor twice = cat({eye(33, {.dtype = f64}), eye(33, {.dtype = f64})});  // all equal
  Values v(36 * 36, 0.0);  // some are 0, some equal, on the diagonal and in no order
  for (size_t i = 0; i < 36; i += 2) v[i * 37] = double(i % 6);
  const Tensor some = tensor(v).view({36, 36}).to(f64);
  std::vector<Tensor> all{one, some, zeros({5, 3}, {.dtype = f64})};
  if (wt_test::whole_walk()) all.push_back(one.transpose(0, 1)), all.push_back(twice);
  under_each_svd([&](Device d) {
    for (const Tensor& x : all) check_all_parts(x, d);
  });
}

TEST_CASE("svd: lengths that are far apart", "[autograd]") {
  // Of 1e-20 f32 has no square beside 1; cotangents of 1e20 have none either.
  Tensor x = waves({8, 5});
  x = mul(x, tensor({1.0, 1e-20, 1e-6, 1e-12, 1e-30}, {.dtype = f64}));
  under_each_svd([&](Device d) {
    for (const DType t : {f64, f32}) check_parts(x, 1, true, t, d, t == f64 ? 1e-14 : 1e-6);
  });
}

TEST_CASE("svd of nothing: bases are those of the axes", "[autograd]") {
  for (const Device d : wt_test::kernel_devices()) {
    const SvdResult y = svd(ones({2, 0, 3}, {.dtype = f64, .device = d}));
    CHECK(y.u.shape() == Shape{2, 0, 0});
    CHECK(y.s.shape() == Shape{2, 0});
    CHECK(y.vh.shape() == Shape{2, 3, 3});
    CHECK(y.vh.to_vector<double>() == Values{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1});
    const SvdResult reduced = svd(ones({3, 0}, {.device = d}), {.full_matrices = false});
    CHECK(reduced.u.shape() == Shape{3, 0});
    CHECK(reduced.vh.shape() == Shape{0, 0});
    CHECK(pinv(ones({3, 0}, {.device = d})).shape() == Shape{0, 3});
    CHECK(matrix_rank(ones({2, 3, 0}, {.device = d})).to_vector<i64>() == std::vector<i64>{0, 0});
  }
  const SvdResult meta = svd(ones({2, 4, 3}, {.device = Device::meta()}));
  CHECK(meta.u.shape() == Shape{2, 4, 4});
  CHECK(meta.vh.shape() == Shape{2, 3, 3});
}

TEST_CASE("svd of what is not finite throws, whoever computes", "[autograd]") {
  under_each_svd([](Device d) {
    for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)})
      for (const DType t : {f64, f32}) {
        if (!wt_test::whole_walk() && (bad < 0 || std::isnan(bad) != (t == f32))) continue;
        Tensor x = waves({3, 34, 33}).clone();
        x.mutable_data<double>()[34 * 33 * 2 + 40] = bad;
        const std::string text = message_of([&] { (void)svd(x.to(t).to(d)); });
        CHECK(mentions(text, "[svd] the iteration does not converge for matrix 2"));
        CHECK(mentions(message_of([&] { (void)svdvals(x.to(t).to(d)); }), "[svdvals] the iter"));
      }
  });
}

TEST_CASE("svd in shared memory takes what fits into it", "[autograd]") {
  const Device simt{DeviceKind::simt, 0};
  const DeviceLimits small{8, 0, 1, 48 * 1024};
  detail::set_simt_limits(&small);
  const Tensor x = waves({100, 70}).to(f32).to(simt);
  CHECK_NOTHROW((void)svd(x));
  {
    const VariantScope scope{"svd", "shared"};
    CHECK(mentions(message_of([&] { (void)svd(x); }),
                   "takes matrices that fit into a block's shared memory only"));
    CHECK_NOTHROW((void)svdvals(x));  // which has no bases
  }
  detail::set_simt_limits(nullptr);
}

TEST_CASE("svd: equal bits run after run, for 1 and 2 threads", "[autograd]") {
  const Tensor x = waves(wt_test::whole_walk() ? Shape{2, 48, 35} : Shape{2, 34, 33});
  const int before = num_threads();
  under_each_svd([&](Device d) {
    Values first;
    for (const int threads : {1, 2, 2}) {
      if (!first.empty() && threads == num_threads() && !wt_test::whole_walk()) continue;
      set_num_threads(threads);
      const Values now = svd(x.to(d)).u.to_vector<double>();
      if (first.empty()) first = now;
      CHECK(now == first);
    }
  });
  set_num_threads(before);
}

TEST_CASE("svd: what completes a basis has no part in the gradient, as in PyTorch", "[autograd]") {
  const Tensor x = waves({4, 2}).clone().set_requires_grad();
  const Tensor beyond = slice(svd(x).u, -1, {2, 4});
  CHECK(grad((beyond * beyond).sum(), x).to_vector<double>() == Values(8, 0.0));
}

TEST_CASE("singular values that are equal, or 0, have gradients; their vectors have none",
          "[autograd]") {
  const Tensor x = eye(3, {.dtype = f64}).clone().set_requires_grad();
  const Tensor g = grad(svdvals(x).sum(), x);
  CHECK(distance(g, eye(3, {.dtype = f64})) < 1e-15);
  CHECK(distance(grad(svd(x).s.sum(), x), eye(3, {.dtype = f64})) < 1e-15);
  const SvdResult y = svd(x);
  const Values of_vectors = grad((y.u * waves({3, 3})).sum(), x).to_vector<double>();
  CHECK(std::any_of(of_vectors.begin(), of_vectors.end(),
                    [](double v) { return !std::isfinite(v); }));
}

TEST_CASE("pinv solves least squares; what counts as 0 is left out", "[autograd]") {
  for (const Device d : wt_test::kernel_devices()) {
    const Tensor a = waves({6, 3}).to(d), b = waves({6, 1}).to(d) + 1.0;
    const Tensor left = b - matmul(a, matmul(pinv(a), b));  // at right angles to all columns
    CHECK(distance(matmul(a.transpose(0, 1), left), zeros({3, 1}, {.dtype = f64})) < 1e-14);
    const Tensor small = diag_embed(tensor({2.0, 1e-3, 0.0}, {.dtype = f64})).to(d);
    const auto inverses = [&](SingularOptions o) {
      return diagonal(pinv(small, o)).to(Device::cpu()).to_vector<double>();
    };
    CHECK(std::abs(inverses({})[1] - 1e3) < 1e-12 * 1e3);
    CHECK(inverses({})[2] == 0);
    CHECK(inverses({.atol = 1e-2})[1] == 0);
    CHECK(inverses({.rtol = 1e-3})[1] == 0);
    CHECK(inverses({.rtol = 1e-4})[1] > 999);
    CHECK(matrix_rank(small).to_vector<i64>() == std::vector<i64>{2});
    CHECK(matrix_rank(small, {.atol = 1e-2}).to_vector<i64>() == std::vector<i64>{1});
    // A tolerance of f32: the smallest is above that of f64 alone.
    const Tensor near = diag_embed(tensor({1.0, 1e-8}, {.dtype = f64})).to(d);
    CHECK(matrix_rank(near).to_vector<i64>() == std::vector<i64>{2});
    CHECK(matrix_rank(near.to(f32)).to_vector<i64>() == std::vector<i64>{1});
  }
}

TEST_CASE("slogdet: determinants that no float holds, singular matrices, signs", "[autograd]") {
  for (const Device d : wt_test::kernel_devices()) {
    const Tensor large = diag_embed(tensor({1e200, -1e200}, {.dtype = f64})).to(d);
    CHECK(std::isinf(det(large).item()));
    const SlogdetResult y = slogdet(large);
    CHECK(y.sign.item() == -1);
    CHECK(std::abs(y.logabsdet.item() - 400 * std::log(10.0)) < 1e-12);
    const SlogdetResult singular = slogdet(ones({2, 3, 3}, {.device = d}));
    CHECK(singular.sign.to_vector<double>() == Values{0, 0});
    CHECK(singular.logabsdet.to_vector<double>() == Values{-INFINITY, -INFINITY});
    const SlogdetResult none = slogdet(ones({0, 0}, {.device = d}));
    CHECK(none.sign.item() == 1);
    CHECK(none.logabsdet.item() == 0);
    const SlogdetResult nan = slogdet(full({2, 2}, NAN, {.device = d}));
    CHECK(nan.sign.item() == 0);  // as in PyTorch
    CHECK(std::isnan(nan.logabsdet.item()));
  }
  const Tensor x = (waves({3, 3}) + eye(3, {.dtype = f64})).clone().set_requires_grad();
  CHECK(grad(slogdet(x).sign.sum(), x).to_vector<double>() == Values(9, 0.0));
}

TEST_CASE("vmap of factors: of parts of slices, and which matrix failed", "[autograd][vmap]") {
  const Tensor x = waves({3, 2, 4, 4}) + eye(4, {.dtype = f64});
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> functions[] = {
      {"inverse", [](const Tensor& t) { return inverse(t[1]); }},
      {"det", [](const Tensor& t) { return det(t[1]); }},
      {"qr", [](const Tensor& t) { return qr(t[1]).r; }},
      {"svdvals", [](const Tensor& t) { return svdvals(t[1]); }},
      {"all", [](const Tensor& t) { return pinv(t); }},
  };
  for (const Device d : wt_test::kernel_devices())
    for (const auto& [name, f] : functions) {
      INFO(name << " on " << device_kind_name(d.kind));
      const Tensor together = vmap(f)(x.to(d));
      for (i64 i = 0; i < 3; ++i)
        CHECK(distance(together[i], at_home(f(x[i].clone().to(d)))) < 1e-14);
    }
  Tensor bad = waves({3, 2, 2}).clone();
  bad.mutable_data<double>()[9] = NAN;
  const auto values = [](const Tensor& t) { return svdvals(t); };
  CHECK(mentions(message_of([&] { (void)vmap(values)(bad); }),
                 "[svdvals] the iteration does not converge"));
}
