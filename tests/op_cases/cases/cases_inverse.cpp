// Rows of systems, inverses and determinants.
#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/inverse.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

const std::vector<DType> kTwo{f64, f32};
using Matrix = std::vector<double>;

// Far from singular in every layout, and rows change places: 3 beside the diagonal, cyclically.
double shift(i64 i, i64 j, i64 n) { return j == (i + 1) % n ? 3 : 0; }
Tensor shift_like(const Tensor& t) {
  const i64 n = t.size(-1);
  std::vector<double> v;
  for (i64 i = 0; i < n * n; ++i) v.push_back(shift(i / n, i % n, n));
  return tensor(v).view({n, n}).to(t.dtype()).to(t.device());
}
Matrix shifted(const double* from, i64 n) {
  Matrix m(from, from + n * n);
  for (i64 i = 0; i < n * n; ++i) m[size_t(i)] += shift(i / n, i % n, n);
  return m;
}

// x of m x = b by Gauss and Jordan; returns the determinant.
double eliminate(Matrix m, Matrix& b, i64 n, i64 k) {
  double det = 1;
  const auto at = [&](i64 i, i64 j) -> double& { return m[size_t(i * n + j)]; };
  for (i64 j = 0; j < n; ++j) {
    i64 p = j;
    for (i64 i = j; i < n; ++i)
      if (std::fabs(at(i, j)) > std::fabs(at(p, j))) p = i;
    if (p != j) det = -det;
    for (i64 c = 0; c < n; ++c) std::swap(at(p, c), at(j, c));
    for (i64 c = 0; c < k && p != j; ++c) std::swap(b[size_t(p * k + c)], b[size_t(j * k + c)]);
    const double pivot = at(j, j);
    det *= pivot;
    for (i64 c = 0; c < n; ++c) at(j, c) /= pivot;
    for (i64 c = 0; c < k; ++c) b[size_t(j * k + c)] /= pivot;
    for (i64 i = 0; i < n; ++i) {
      if (i == j) continue;
      const double f = at(i, j);
      for (i64 c = 0; c < n; ++c) at(i, c) -= f * at(j, c);
      for (i64 c = 0; c < k; ++c) b[size_t(i * k + c)] -= f * b[size_t(j * k + c)];
    }
  }
  return det;
}
void scale(Array& y, i64 n) {
  double largest = 1;
  for (const double v : y.v) largest = std::max(largest, std::fabs(v));
  y.terms = kTermsOfFormula + 8 * double(n);
  // Errors are relative to the matrices; the conditions here are small.
  y.magnitude.assign(y.v.size(), 4 * largest);
}

std::vector<ErrorInput> square_errors(const std::string& name,
                                      const std::function<Tensor(const Tensor&)>& f) {
  return {undefined_input(name, f),
          fails<ShapeError>("rank", "[" + name + "] a must have at least 2 dimensions", {2}, f),
          fails<ShapeError>("square", "[" + name + "] a must be square, got 2 rows and 3 columns",
                            {2, 3}, f),
          fails<DtypeError>("dtype", "[" + name + "] a must be f32 or f64, got f16", {2, 2},
                            [f](const Tensor& x) { return f(x.to(DType::f16)); })};
}
const char* const kShift = "(a + 3 * torch.eye(a.shape[-1], dtype=a.dtype).roll(1, -1))";

void add_solves(std::vector<OpCase>& rows) {
  OpCase c{"solve", {"lu", "solve_triangular", "gather"}, kTwo};
  for (const auto& [a, b] : {std::pair<Shape, Shape>{{3, 3}, {3, 2}},
                             {{2, 3, 3}, {2, 3, 2}},
                             {{2, 1, 2, 2}, {3, 2, 3}},
                             {{1, 1}, {1, 1}},
                             {{0, 0}, {0, 2}},
                             {{3, 3}, {3, 0}},
                             {{33, 33}, {33, 5}}}) {
    const i64 n = a[a.ndim() - 1], k = b[b.ndim() - 1];
    Shape out = broadcast(Shape(a.data(), a.ndim() - 2), Shape(b.data(), b.ndim() - 2));
    out.push_back(n), out.push_back(k);
    Sample s{
        "",
        {{a, -0.5, 0.5}, {b}},
        [](std::span<const Tensor> x) { return solve(x[0] + shift_like(x[0]), x[1]); },
        [=](const std::vector<Array>& x) {
          Array y{out, {}};
          for (i64 e = 0; n && k && e < count(out); e += n * k) {
            const std::vector<i64> place = unravel(e, out);
            const auto first = [&](const Shape& of) {
              return size_t(ravel(place, of) / (n * of[of.ndim() - 1]) * (n * of[of.ndim() - 1]));
            };
            Matrix right(x[1].v.begin() + i64(first(b)), x[1].v.begin() + i64(first(b)) + n * k);
            eliminate(shifted(x[0].v.data() + first(a), n), right, n, k);
            y.v.insert(y.v.end(), right.begin(), right.end());
          }
          scale(y, n);
          return y;
        }};
    s.torch = str("torch.linalg.solve(", kShift, ", b)");
    c.samples.push_back(std::move(s));
  }
  c.errors = square_errors("solve", [](const Tensor& x) { return solve(x, x); });
  c.errors.push_back(fails<ShapeError>("rows", "[solve] a has 2 columns, b has 3 rows", {2, 2},
                                       [](const Tensor& x) {
                                         return solve(x, ones({3, 1}, {.device = x.device()}));
                                       }));
  c.errors.push_back(fails<NumericError>("singular", "[solve] matrix is singular: its pivot 2 is 0",
                                         {2, 2}, [](const Tensor& x) { return solve(x, x); }));
  rows.push_back(std::move(c));
}

void add_inverses(std::vector<OpCase>& rows) {
  OpCase c{"inverse", {"lu", "solve_triangular", "gather"}, kTwo};
  OpCase d{"det", {"lu", "prod"}, kTwo};
  OpCase l{"slogdet", {"lu", "prod", "sum"}, kTwo};
  for (const Shape& shape : {Shape{3, 3},
                             {2, 3, 3},
                             {1, 1},
                             {4, 4},
                             {2, 1, 2, 2},
                             {0, 0},
                             {0, 2, 2},
                             {5, 5},
                             {33, 33}}) {
    const i64 n = shape[shape.ndim() - 1];
    Sample s{"",
             {{shape, -0.5, 0.5}},
             [](std::span<const Tensor> x) { return inverse(x[0] + shift_like(x[0])); },
             [=](const std::vector<Array>& x) {
               Array y{shape, {}};
               for (i64 e = 0; n && e < count(shape); e += n * n) {
                 Matrix one(size_t(n * n), 0.0);
                 for (i64 i = 0; i < n; ++i) one[size_t(i * n + i)] = 1;
                 eliminate(shifted(x[0].v.data() + e, n), one, n, n);
                 y.v.insert(y.v.end(), one.begin(), one.end());
               }
               scale(y, n);
               return y;
             }};
    s.torch = str("torch.linalg.inv(", kShift, ")");
    c.samples.push_back(s);
    // Of one element the derivative is 1; large determinants are all of one size.
    if (n == 1 || n > 5) continue;
    const Shape batch(shape.data(), shape.ndim() - 2);
    s.call = [](std::span<const Tensor> x) { return det(x[0] + shift_like(x[0])); };
    s.oracle = [=](const std::vector<Array>& x) {
      Array y{batch, {}};
      for (i64 e = 0; e < count(batch); ++e) {
        Matrix none;
        y.v.push_back(n ? eliminate(shifted(x[0].v.data() + e * n * n, n), none, n, 0) : 1);
      }
      scale(y, n);
      return y;
    };
    s.torch = str("torch.linalg.det(", kShift, ")");
    d.samples.push_back(s);
    for (const bool sign : {true, false}) {
      s.label = sign ? "sign" : "logabsdet";
      s.call = [sign](std::span<const Tensor> x) {
        const SlogdetResult y = slogdet(x[0] + shift_like(x[0]));
        return sign ? y.sign : y.logabsdet;
      };
      s.oracle = [det = d.samples.back().oracle, sign](const std::vector<Array>& x) {
        Array y = det(x);
        for (double& v : y.v) v = sign ? (v < 0 ? -1 : 1) : std::log(std::fabs(v));
        return y;
      };
      s.gradients = !sign;
      s.constant = sign;
      s.torch = str("torch.linalg.slogdet(", kShift, ")[", sign ? 0 : 1, "]");
      l.samples.push_back(s);
    }
  }
  c.errors = square_errors("inverse", [](const Tensor& x) { return inverse(x); });
  c.errors.push_back(fails<NumericError>("singular",
                                         "[inverse] matrix 0 is singular: its pivot 2 is 0",
                                         {3, 2, 2}, [](const Tensor& x) { return inverse(x); }));
  d.errors = square_errors("det", [](const Tensor& x) { return det(x); });
  l.errors = square_errors("slogdet", [](const Tensor& x) { return slogdet(x).logabsdet; });
  rows.push_back(std::move(c));
  rows.push_back(std::move(d));
  rows.push_back(std::move(l));
}

void add_inverse_cases(std::vector<OpCase>& rows) {
  add_solves(rows);
  add_inverses(rows);
}

const CaseFile file{add_inverse_cases};

}  // namespace
}  // namespace wt_test
