// Linear algebra: what the rows cannot say.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/decompose.h"
#include "warptape/autograd/ops/diagonal.h"
#include "warptape/autograd/ops/einsum.h"
#include "warptape/autograd/ops/linalg.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
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
constexpr double kNan = NAN;

Tensor waves(const Shape& shape, DType t = f64) {
  Values v(size_t(numel_of(shape)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(double(i) * 1.3 + 0.2);
  return tensor(v).view(shape).to(t);
}
}  // namespace

TEST_CASE("addmm with beta 0 does not look at what it would add", "[autograd]") {
  const Tensor x = full({2, 2}, kNan), a = waves({2, 3}, f32), b = waves({3, 2}, f32);
  CHECK(addmm(x, a, b, {.beta = 0}).to_vector<double>() == matmul(a, b).to_vector<double>());
  CHECK(std::isnan(addmm(x, a, b).to_vector<double>()[0]));
}

TEST_CASE("cdist at distance 0 has gradient 0", "[autograd]") {
  for (const double p : {2.0, 1.0, 3.0, double(INFINITY)}) {
    Tensor a = waves({3, 2}).clone().set_requires_grad();
    const Tensor g = grad(cdist(a, detach(a), p).sum(), a);
    for (const double v : g.to_vector<double>()) CHECK(std::isfinite(v));
    Tensor one = waves({1, 2}).clone().set_requires_grad();
    CHECK(grad(cdist(one, detach(one), p).sum(), one).to_vector<double>() == Values{0, 0});
  }
}

TEST_CASE("cdist: near points keep their digits, whatever their distance from the origin",
          "[autograd]") {
  // A formula by products, |a|^2 - 2 a b + |b|^2, would have nothing left of these.
  const Tensor a = tensor({{1000.0, 2000.0}}), b = tensor({{1000.0 + 0x1p-10, 2000.0}});
  CHECK(cdist(a, b).to_vector<double>() == Values{0x1p-10});
  const Tensor x = a.clone().set_requires_grad();
  CHECK(grad(cdist(x, b).sum(), x).to_vector<double>() == Values{-1, 0});
}

TEST_CASE("cdist: p = inf gives its whole gradient to each of several largest differences",
          "[autograd]") {
  for (const bool create_graph : {false, true}) {
    Tensor a = tensor({{1.0, -1.0, 0.5}}, {.dtype = f64}).set_requires_grad();
    const Tensor y = cdist(a, zeros({1, 3}, {.dtype = f64}), double(INFINITY));
    const Tensor g = grads(
        y, a, {.grad_outputs = {ones({1, 1}, {.dtype = f64})}, .create_graph = create_graph})[0];
    CHECK(g.to_vector<double>() == Values{1, -1, 0});
  }
}

TEST_CASE("cdist: NaN and infinity reach the distances that they belong to", "[autograd]") {
  for (const double p : {1.0, 2.0, 3.0, double(INFINITY)}) {
    const Tensor a = tensor({{kNan, 0.0, 1.0}, {0.0, INFINITY, 1.0}, {0.0, 1.0, 2.0}});
    for (const Tensor& from : {a, a.slice(0, {0, 2})}) {
      const Values d = cdist(from, zeros({20, 3}), p).to_vector<double>();
      for (size_t j = 0; j < 20; ++j) {
        CHECK(std::isnan(d[j]));
        CHECK(d[20 + j] == double(INFINITY));
      }
    }
  }
}

TEST_CASE("einsum of one operand never is a view of it", "[autograd]") {
  const Tensor x = waves({2, 3});
  Tensor y = einsum("ij->ji", {x});
  y.fill_(7);
  CHECK(x.to_vector<double>() == waves({2, 3}).to_vector<double>());
}

TEST_CASE("einsum says what it cannot read, and where it was called", "[autograd]") {
  const Tensor x = waves({2, 3});
  try {
    (void)einsum("ij,jk->ik", {x, x});
    FAIL("nothing was thrown");
  } catch (const ShapeError& e) {
    const std::string text = e.what();
    CHECK(text.find("[einsum] label 'j' has size 2 in operand 1 and 3 before") !=
          std::string::npos);
    CHECK(text.find("operand 1: ") != std::string::npos);
    CHECK(text.find("ops_linalg_test.cpp:") != std::string::npos);
  }
  CHECK_THROWS_AS(einsum("", std::span<const Tensor>{}), UsageError);
  CHECK_THROWS_AS(einsum("abcde,fghij->abcdefghij", {ones({1, 1, 1, 1, 1}), ones({1, 1, 1, 1, 1})}),
                  ShapeError);
}

TEST_CASE("products of more than 2^31 elements on meta", "[autograd]") {
  const i64 n = i64{1} << 16;
  const TensorOptions meta{.device = Device::meta()};
  CHECK(outer(empty({n}, meta), empty({n}, meta)).shape() == Shape{n, n});
  CHECK(bmm(empty({4, n, 2}, meta), empty({4, 2, n}, meta)).shape() == Shape{4, n, n});
  CHECK(einsum("ij,kj->ik", {empty({n, 2}, meta), empty({n, 2}, meta)}).shape() == Shape{n, n});
  CHECK(cdist(empty({n, 2}, meta), empty({n, 2}, meta)).shape() == Shape{n, n});
}

TEST_CASE("the gradient of cholesky is that of a symmetric matrix, as in PyTorch", "[autograd]") {
  Tensor a = tensor({{4.0, 2.0}, {2.0, 5.0}}).to(f64).clone().set_requires_grad();
  const Tensor l = cholesky(a);
  CHECK(l.to_vector<double>() == Values{2, 0, 1, 2});
  // d(l11)/da = 1/4; the sum of all: by hand, from l11 = sqrt(a), l21 = b/l11, l22 = sqrt(c -
  // l21^2).
  const Values g = grad(l.sum(), a).to_vector<double>();
  CHECK(std::abs(g[0] - (0.25 - 0.125 + 0.0625)) < 1e-15);
  CHECK(std::abs(g[1] - 0.5 * (0.5 - 0.25)) < 1e-15);
  CHECK(g[1] == g[2]);
  CHECK(std::abs(g[3] - 0.25) < 1e-15);
  // What is above the diagonal is not read.
  CHECK(cholesky(tensor({{4.0, kNan}, {2.0, 5.0}}).to(f64)).to_vector<double>() ==
        Values{2, 0, 1, 2});
}

namespace {
// Calls f on every device under each of its variants of the contract.
void under_each_variant(const std::string& contract, const std::function<void(Device)>& f) {
  for (const Device d : wt_test::kernel_devices())
    for (const ContractInfo& c : all_contracts()) {
      if (c.name != contract) continue;
      for (int i = 0; i < c.count(d.kind); ++i) {
        const char* const variant = c.variant(d.kind, i).name;
        INFO(device_kind_name(d.kind) << " " << variant);
        const VariantScope scope{contract, variant};
        f(d);
      }
    }
}
}  // namespace

TEST_CASE("a matrix with NaN is not positive definite to any variant of cholesky", "[autograd]") {
  under_each_variant("cholesky", [](Device d) {
    // On the cpu more rows than one block of LAPACK's has, elsewhere than one of a kernel's.
    const int n = d.kind == DeviceKind::cpu ? 200 : 70;
    const Tensor good = mul(eye(n, {.dtype = f64}), 2.0);
    CHECK_NOTHROW((void)cholesky(good.to(d)));
    // NaN on the diagonal and below it.
    const std::pair<int, int> places[] = {
        {0, 0}, {n - 50, n - 50}, {n - 1, n - 1}, {n - 1, 0}, {n / 2, 3}};
    for (const auto& [row, column] : places)
      for (const DType t : {f64, f32}) {
        if (!wt_test::whole_walk() && (t == f64) != (row == n - 1)) continue;
        Tensor bad = good.clone();
        bad.mutable_data<double>()[row * n + column] = kNan;
        INFO("NaN at " << row << ", " << column);
        CHECK(mentions(message_of([&] { (void)cholesky(bad.to(t).to(d)); }),
                       str("leading minor of order ", row + 1)));
      }
    CHECK(mentions(message_of([&] {
                     (void)cholesky(stack({good, good * kNan}).to(d));
                   }),
                   "matrix 1"));
  });
}

TEST_CASE("decompositions of what is not finite end", "[autograd]") {
  Values v(2 * 5 * 5, 1.0);
  v[3] = kNan, v[24] = kNan, v[25 + 7] = INFINITY;
  const Tensor bad = tensor(v).view({2, 5, 5});
  under_each_variant("qr",
                     [&](Device d) { CHECK(std::isnan(qr(bad.to(d)).r.to_vector<double>()[3])); });
  under_each_variant("eigh", [&](Device d) {
    // LAPACK gives NaN, or an error as the iteration of our own.
    const std::string text = message_of([&] {
      for (const DType t : {f64, f32})
        if (std::isnan(eigh(bad.to(t).to(d)).values.to_vector<double>()[0]))
          throw NumericError("does not converge");
    });
    CHECK(mentions(text, "does not converge"));
  });
}

TEST_CASE("eigh: equal eigenvalues, and some that are 0", "[autograd]") {
  // 35 rows: an odd number, and more than a warp has lanes.
  Values v(35 * 35, 0.0), want(35, 0.0);
  for (size_t i = 20; i < 35; ++i) v[i * 36] = double(i < 25 ? 25 : i), want[i] = v[i * 36];
  under_each_variant("eigh", [&](Device d) {
    for (const DType t : {f64, f32})
      CHECK(eigh(tensor(v).view({35, 35}).to(t).to(d)).values.to_vector<double>() == want);
    CHECK(eigh(zeros({3, 3}, {.device = d})).values.to_vector<double>() == Values{0, 0, 0});
  });
}

namespace {
// The largest difference of p, wherever it is, to q.
double distance(const Tensor& p, const Tensor& q) {
  return max(abs(p.to(Device::cpu()).to(f64) - q)).item();
}
}  // namespace

TEST_CASE("cholesky and triangular systems of several tiles", "[autograd]") {
  // 70 rows are three tiles of 32, 40 right sides are two; the last ones are not full.
  constexpr int n = 70;
  const Tensor x = waves({2, n, n}), b = waves({2, n, 40});
  const Tensor m = matmul(x, x.transpose(1, 2)) + mul(eye(n, {.dtype = f64}), 20.0);
  under_each_variant("cholesky", [&](Device d) {
    for (const DType t : {f64, f32}) {
      const Tensor l = cholesky(m.to(t).to(d));
      CHECK(distance(matmul(l, l.transpose(1, 2)), m) < (t == f64 ? 1e-12 : 1e-4));
      CHECK(triu(l, 1).to_vector<double>() == Values(2 * n * n, 0.0));
      CHECK(cholesky(m.to(t).to(d)).to_vector<double>() == l.to_vector<double>());
    }
  });
  const Tensor a = mul(x, 0.05) + eye(n, {.dtype = f64});
  under_each_variant("solve_triangular", [&](Device d) {
    for (int choice = 0; choice < 8; ++choice) {
      const SolveTriangularOptions o{.upper = (choice & 1) != 0,
                                     .transposed = (choice & 2) != 0,
                                     .unitriangular = choice >= 4};
      Tensor e = o.upper ? triu(a, o.unitriangular) : tril(a, o.unitriangular ? -1 : 0);
      if (o.unitriangular) e = e + eye(n, {.dtype = f64});
      if (o.transposed) e = e.transpose(1, 2);
      INFO("choice " << choice);
      for (const DType t : {f64, f32}) {
        // Each option with both dtypes, if not each choice.
        const bool odd = (choice ^ choice >> 1 ^ choice >> 2) & 1;
        if (!wt_test::whole_walk() && odd != (t == f64)) continue;
        CHECK(
            distance(
                matmul(e,
                       solve_triangular(a.to(t).to(d), b.to(t).to(d), o).to(Device::cpu()).to(f64)),
                b) < (t == f64 ? 1e-12 : 1e-4));
      }
    }
  });
}

TEST_CASE("the first of many small matrices that is not positive is told", "[autograd]") {
  // So many that a block each would be a waste.
  Values v(2050 * 4, 1.0);
  for (size_t i = 0; i < v.size(); i += 4) v[i] = 2;
  v[4 * 2049] = -1, v[4 * 2047 + 3] = 0.25;
  for (const Device d : wt_test::kernel_devices())
    CHECK(mentions(message_of([&] {
                     (void)cholesky(tensor(v).view({2050, 2, 2}).to(d));
                   }),
                   "matrix 2047 is not positive definite: its leading minor of order 2"));
}

TEST_CASE("qr and eigh of more rows than a warp has lanes, large and small ones", "[autograd]") {
  // Squares of 1e25 are more than f32 can hold, those of 1e-25 less.
  for (const double scale : {1.0, 1e25, 1e-25}) {
    INFO("scale " << scale);
    // f64 has the squares of all three.
    const auto is_wanted = [&](DType t) { return scale == 1 || t == f32 || wt_test::whole_walk(); };
    for (const Shape& shape : {Shape{2, 70, 41}, Shape{2, 41, 70}}) {
      if (scale != 1 && shape[1] < shape[2] && !wt_test::whole_walk()) continue;
      const Tensor x = waves(shape);
      under_each_variant("qr", [&](Device d) {
        for (const DType t : {f64, f32}) {
          if (!is_wanted(t)) continue;
          const QrResult y = qr(mul(x, scale).to(t).to(d));
          const double bound = t == f64 ? 1e-13 : 1e-5;
          CHECK(distance(div(matmul(y.q, y.r), scale), x) < 4 * bound);
          const Tensor one = eye(41, {.dtype = f64});
          CHECK(distance(matmul(y.q.transpose(1, 2), y.q), one) < bound);
          if (scale == 1)
            CHECK(qr(mul(x, scale).to(t).to(d)).r.to_vector<double>() == y.r.to_vector<double>());
        }
      });
    }
    const Tensor x = waves({2, 41, 41}), m = x + x.transpose(1, 2);
    under_each_variant("eigh", [&](Device d) {
      for (const DType t : {f64, f32}) {
        if (!is_wanted(t)) continue;
        const EighResult y = eigh(mul(m, scale).to(t).to(d));
        const double bound = t == f64 ? 2e-13 : 1e-4;
        const Tensor again =
            matmul(mul(y.vectors, y.values.unsqueeze(-2)), y.vectors.transpose(1, 2));
        CHECK(distance(div(again, scale), m) < bound);
        const Tensor one = eye(41, {.dtype = f64});
        CHECK(distance(matmul(y.vectors.transpose(1, 2), y.vectors), one) < bound);
        const Values w = y.values.to_vector<double>();
        CHECK(std::is_sorted(w.begin(), w.begin() + 41));
      }
    });
  }
}

TEST_CASE("qr and eigh in shared memory take what fits into it", "[autograd]") {
  const Device simt{DeviceKind::simt, 0};
  const DeviceLimits small{8, 0, 1, 48 * 1024};
  detail::set_simt_limits(&small);
  const Tensor x = ones({80, 80}, {.device = simt});
  CHECK_NOTHROW((void)qr(x));
  for (const char* const contract : {"qr", "eigh"}) {
    const VariantScope scope{contract, "shared"};
    CHECK(mentions(message_of([&] { contract[0] == 'q' ? (void)qr(x) : (void)eigh(x); }),
                   "takes matrices that fit into a block's shared memory only"));
  }
  detail::set_simt_limits(nullptr);
}

TEST_CASE("solve_triangular reads one triangle; a zero pivot gives infinities", "[autograd]") {
  const Tensor b = tensor({2.0, 3.0}).view({2, 1});
  CHECK(solve_triangular(tensor({{2.0, kNan}, {1.0, 1.0}}), b).to_vector<double>() == Values{1, 2});
  CHECK(solve_triangular(tensor({{kNan, kNan}, {1.0, kNan}}), b, {.unitriangular = true})
            .to_vector<double>() == Values{2, 1});
  CHECK(std::isinf(solve_triangular(tensor({{0.0, 0.0}, {1.0, 1.0}}), b).to_vector<double>()[0]));
}

TEST_CASE("linear algebra: equal bits for 1 and 2 threads", "[autograd]") {
  const Tensor x = waves({2, 150, 150}), a = matmul(x, x.transpose(1, 2)) + 0.0;
  std::vector<double> shift(150 * 150, 0.0);
  for (size_t i = 0; i < 150; ++i) shift[i * 151] = 200;
  const Tensor m = a + tensor(shift).view({150, 150}).to(f64);
  const int before = num_threads();
  std::vector<Values> first;
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    const std::vector<Values> now{cholesky(m).to_vector<double>(),
                                  solve_triangular(m, x).to_vector<double>(),
                                  qr(x).r.to_vector<double>(), eigh(m).values.to_vector<double>()};
    if (first.empty()) first = now;
    CHECK(now == first);
  }
  set_num_threads(before);
}
