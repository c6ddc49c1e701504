// What is taken apart or inverted with a NaN or an infinity in it, and determinants of singular
// matrices.
#include <cmath>
#include <limits>
#include <string>

#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/operators.h"
#include "warptape/kernels/linalg.h"
#include "warptape/kernels/lu.h"
#include "warptape/kernels/svd.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using namespace wt_test;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Three matrices [n, n], positive definite, the second one with `odd` at (i, j).
Tensor matrices(i64 n, i64 i, i64 j, double odd, DType t, Device d) {
  Values v;
  for (i64 b = 0; b < 3; ++b)
    for (i64 r = 0; r < n; ++r)
      for (i64 c = 0; c < n; ++c)
        v.push_back(b == 1 && r == i && c == j ? odd
                    : r == c                   ? 4 + double(r + b)
                                               : 1 / double(1 + std::abs(r - c)));
  return tensor(v).to(t).reshape({3, n, n}).to(d);
}
bool has_nan(const Tensor& t, i64 b) {
  for (const double v : values(t.select(0, b)))
    if (std::isnan(v)) return true;
  return false;
}

using Parts = std::vector<Tensor>;
struct Refusing {
  const char* name;
  bool lower_only;  // what it reads
  Parts (*call)(const Tensor&);
};
const Refusing kRefusing[] = {
    {"cholesky", true, [](const Tensor& a) { return Parts{cholesky(a)}; }},
    {"eigh", true, [](const Tensor& a) { return Parts{eigh(a).values}; }},
    {"svd", false, [](const Tensor& a) { return Parts{svd(a).s}; }},
    {"svd", false, [](const Tensor& a) { return Parts{svdvals(a)}; }},
    {"pinv", false, [](const Tensor& a) { return Parts{pinv(a)}; }},
    {"matrix_rank", false, [](const Tensor& a) { return Parts{matrix_rank(a)}; }},
};
const Refusing kPassing[] = {
    {"qr", false,
     [](const Tensor& a) {
       const QrResult y = qr(a);
       return Parts{cat({y.q, y.r}, 1)};
     }},
    {"solve", false, [](const Tensor& a) { return Parts{solve(a, ones_like(a))}; }},
    {"inverse", false, [](const Tensor& a) { return Parts{inverse(a)}; }},
    {"det", false, [](const Tensor& a) { return Parts{det(a)}; }},
    {"slogdet", false, [](const Tensor& a) { return Parts{slogdet(a).logabsdet}; }},
    {"solve_triangular", true,
     [](const Tensor& a) { return Parts{solve_triangular(a, ones_like(a))}; }},
};

template <class Args, class F>
void in_each_variant(Device d, const F& f) {
  const Variants<Args>* list = ContractTable<Args>::rows[int(d.kind)];
  for (int k = 0; k < list->count; ++k) {
    if (list->rows[k].why_not && std::string(list->rows[k].name) == "blas") continue;
    INFO(ContractTable<Args>::kName << " " << list->rows[k].name);
    const VariantScope scope(ContractTable<Args>::kName, list->rows[k].name);
    f();
  }
}

void check_refused(const Refusing& op, double odd, DType t, Device d) {
  const i64 n = 3;
  for (i64 i = 0; i < n; ++i)
    for (i64 j = 0; j < n; ++j) {
      // An infinity on the diagonal is positive.
      if (odd == odd && i == j && std::string(op.name) == "cholesky") continue;
      const Tensor a = matrices(n, i, j, odd, t, d);
      CAPTURE(op.name, i, j);
      if (op.lower_only && j > i) {
        for (const double v : values(op.call(a)[0])) CHECK(std::isfinite(v));
        continue;
      }
      const std::string message = message_of([&] { (void)op.call(a); });
      CHECK(mentions(message, std::string("[") + op.name));
      CHECK(mentions(message, "matrix 1 "));
    }
}

}  // namespace

TEST_CASE("decompositions that can fail refuse a NaN wherever it is read", "[odd_matrices]") {
  for (const Device d : kernel_devices())
    for (const DType t : {f32, f64})
      for (const double odd : {kNaN, double(INFINITY)}) {
        CAPTURE(to_string(d), dtype_name(t), odd);
        for (const Refusing& op : kRefusing) check_refused(op, odd, t, d);
      }
  // In a build without LAPACK, or with it, every variant.
  for (const Device d : kernel_devices()) {
    in_each_variant<EighArgs>(d, [&] { check_refused(kRefusing[1], kNaN, f64, d); });
    in_each_variant<SvdArgs>(d, [&] { check_refused(kRefusing[2], kNaN, f64, d); });
    in_each_variant<CholeskyArgs>(d, [&] { check_refused(kRefusing[0], kNaN, f64, d); });
  }
}

TEST_CASE("systems, inverses, determinants and qr carry a NaN into its matrix's result",
          "[odd_matrices]") {
  const i64 n = 3;
  for (const Device d : kernel_devices())
    for (const DType t : {f32, f64})
      for (const Refusing& op : kPassing)
        for (i64 i = 0; i < n; ++i)
          for (i64 j = 0; j < n; ++j) {
            CAPTURE(to_string(d), dtype_name(t), op.name, i, j);
            const Tensor y = op.call(matrices(n, i, j, kNaN, t, d))[0];
            CHECK(has_nan(y, 1) == !(op.lower_only && j > i));
            CHECK_FALSE(has_nan(y, 0));
            CHECK_FALSE(has_nan(y, 2));
          }
}

namespace {

// What the gradient of each element is: the determinant without its row and column, signed.
Values cofactors_of(const Values& a, int n) {
  Values y;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      Values m;
      for (int r = 0; r < n; ++r)
        for (int c = 0; c < n; ++c)
          if (r != i && c != j) m.push_back(a[size_t(r * n + c)]);
      double d = 1;
      if (n == 2) d = m[0];
      if (n == 3) d = m[0] * m[3] - m[1] * m[2];
      y.push_back((i + j) % 2 ? -d : d);
    }
  return y;
}
Tensor square_leaf(const Values& v, i64 n, DType t, Device d) {
  return tensor(v).to(t).reshape({i64(v.size()) / (n * n), n, n}).to(d).set_requires_grad();
}

}  // namespace

TEST_CASE("det: the gradient of a singular matrix is its cofactors", "[odd_matrices]") {
  const Values rank_two = {1, 2, 3, 4, 5, 6, 7, 8, 9}, rank_one = {1, 2, 3, 2, 4, 6, -1, -2, -3};
  const Values regular = {2, 1, 0, 0, 3, 1, 1, 0, 4}, zero(9, 0.0);
  Values all, want;
  for (const Values& v : {rank_two, rank_one, regular, zero}) {
    all.insert(all.end(), v.begin(), v.end());
    const Values c = cofactors_of(v, 3);
    want.insert(want.end(), c.begin(), c.end());
  }
  for (const Device d : kernel_devices())
    for (const DType t : {f32, f64})
      for (const bool again : {false, true}) {
        CAPTURE(to_string(d), dtype_name(t), again);
        const Tensor a = square_leaf(all, 3, t, d);
        const Values g = values(grad(det(a).sum(), a, {.create_graph = again}));
        for (size_t i = 0; i < g.size(); ++i)
          CHECK(std::abs(g[i] - want[i]) <= (t == f32 ? 0x1p-24 : 0x1p-53) * 64 * 30);
      }
  const Tensor one = square_leaf({0}, 1, f64, {});
  CHECK(values(grad(det(one).sum(), one)) == Values{1});
  // Both derivatives are those of differences.
  const auto f = [](std::span<const Tensor> x) { return det(x[0]); };
  for (const Values& v : {rank_two, Values{1, 2, 2, 4}, Values{0, 0, 0, 0}}) {
    const Tensor a = square_leaf(v, v.size() == 9 ? 3 : 2, f64, {});
    CHECK(grad_check(f, {a}).message == "");
    CHECK(grad_grad_check(f, {a}).message == "");
  }
}

TEST_CASE("slogdet: the gradient of a singular matrix is infinite along its cofactors",
          "[odd_matrices]") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor a = square_leaf({1, 2, 2, 4, 2, 0, 0, 4}, 2, f64, d);
    const Values g = values(grad(slogdet(a).logabsdet.sum(), a));
    CHECK(Values(g.begin(), g.begin() + 4) == Values{INFINITY, -INFINITY, -INFINITY, INFINITY});
    CHECK(Values(g.begin() + 4, g.end()) == Values{0.5, 0, 0, 0.25});
  }
}
