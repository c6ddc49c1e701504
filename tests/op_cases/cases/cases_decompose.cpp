// Rows of matrices taken apart and of triangular systems.
#include <algorithm>
#include <cmath>
#include <functional>

#include "warptape/autograd/ops/decompose.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/op_cases/matrices.h"

namespace wt_test {
namespace {

const std::vector<DType> kTwo{f64, f32};

i64 side(const Shape& s) { return s[s.ndim() - 1]; }
Tensor turned(const Tensor& t) { return t.transpose(-2, -1); }
Tensor identity_like(const Tensor& t) {
  const i64 n = t.size(-1);
  std::vector<double> v(size_t(n * n), 0.0);
  for (i64 i = 0; i < n; ++i) v[size_t(i * n + i)] = 1;
  return tensor(v).view({n, n}).to(t.dtype()).to(t.device());
}
// --- cholesky ---
// m = x x^T + 2 I
Tensor positive(const Tensor& x) { return matmul(x, turned(x)) + 2.0 * identity_like(x); }
Matrix positive(const Matrix& x, i64 n) {
  Matrix m(x.size());
  for (i64 i = 0; i < n; ++i)
    for (i64 j = 0; j < n; ++j) {
      for (i64 k = 0; k < n; ++k)
        m[size_t(i * n + j)] += x[size_t(i * n + k)] * x[size_t(j * n + k)];
      if (i == j) m[size_t(i * n + j)] += 2;
    }
  return m;
}
Matrix cholesky_of(const Matrix& m, i64 n) {
  Matrix l(m.size(), 0.0);
  for (i64 j = 0; j < n; ++j)
    for (i64 i = j; i < n; ++i) {
      double v = m[size_t(i * n + j)];
      for (i64 k = 0; k < j; ++k) v -= l[size_t(i * n + k)] * l[size_t(j * n + k)];
      l[size_t(i * n + j)] = i == j ? std::sqrt(v) : v / l[size_t(j * n + j)];
    }
  return l;
}

template <class Call>
std::vector<ErrorInput> matrix_errors(const std::string& name, bool square, Call call) {
  std::vector<ErrorInput> errors = {
      undefined_operand(name, [call](const Tensor& a, const Tensor&) { call(a); }),
      error_input<ShapeError>("rank",
                              "[" + name + "] a must have at least 2 dimensions, got shape [2]",
                              [call](Device d) { call(ones({2}, {.device = d})); }),
      error_input<DtypeError>("dtype", "[" + name + "] a must be f32 or f64, got f16",
                              [call](Device d) {
                                call(ones({2, 2}, {.dtype = DType::f16, .device = d}));
                              })};
  if (square)
    errors.push_back(error_input<ShapeError>(
        "square", "[" + name + "] a must be square, got 2 rows and 3 columns", [call](Device d) {
          call(ones({2, 3}, {.device = d}));
        }));
  return errors;
}

void add_cholesky(std::vector<OpCase>& rows) {
  OpCase c{"cholesky", {"cholesky"}, kTwo};
  for (const Shape& shape : {Shape{3, 3},
                             {2, 3, 3},
                             {1, 1},
                             {5, 5},
                             {2, 1, 2, 2},
                             {7, 7},
                             {0, 0},
                             {0, 2, 2},
                             {33, 33}}) {
    Sample s{"",
             {{shape, -1, 1}},
             [](std::span<const Tensor> x) { return cholesky(positive(x[0])); },
             [n = side(shape), shape](const std::vector<Array>& x) {
               return each_matrix(x[0], shape,
                                  [n](const Matrix& m) { return cholesky_of(positive(m, n), n); });
             }};
    s.torch = "torch.linalg.cholesky(a @ a.mT + 2 * torch.eye(a.shape[-1], dtype=a.dtype))";
    c.samples.push_back(std::move(s));
  }
  c.errors = matrix_errors("cholesky", true, [](const Tensor& a) { (void)cholesky(a); });
  c.errors.push_back(error_input<NumericError>(
      "not positive", "[cholesky] matrix is not positive definite: its leading minor of order 2",
      [](Device d) {
        (void)cholesky(tensor({{1.0, 2.0}, {2.0, 1.0}}).to(d));
      }));
  c.errors.push_back(error_input<NumericError>(
      "of a batch", "[cholesky] matrix 1 is not positive definite: its leading minor of order 1",
      [](Device d) {
        (void)cholesky(tensor({1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0}).view({2, 2, 2}).to(d));
      }));
  rows.push_back(std::move(c));
}

// --- triangular systems ---
// x of op(a + I) x = b by substitution; the rounding of each step grows by the same steps.
Array substituted(const Array& a, const Array& b, const SolveTriangularOptions& o) {
  const i64 n = side(a.shape);
  const Shape batch = broadcast(Shape(a.shape.data(), a.shape.ndim() - 2),
                                Shape(b.shape.data(), b.shape.ndim() - 2));
  Shape result = batch;
  result.push_back(n), result.push_back(side(b.shape));
  Array x{result, std::vector<double>(size_t(count(result)))};
  x.magnitude = x.v;
  x.terms = kTermsOfFormula + 2 * double(n);
  const bool upper = o.upper != o.transposed;  // of op(a)
  for (i64 step = 0; step < n; ++step)
    for (i64 e = 0; e < count(result); ++e) {
      std::vector<i64> place = unravel(e, result), from = place;
      const size_t row = place.size() - 2;
      const i64 i = upper ? n - 1 - step : step;
      if (place[row] != i) continue;
      const auto element = [&](i64 r, i64 c) {
        std::vector<i64> p = place;
        p[row] = o.transposed ? c : r;
        p[row + 1] = o.transposed ? r : c;
        return at(a, p) + (r == c ? 1 : 0);
      };
      double v = at(b, place), size = std::fabs(v);
      for (i64 k = upper ? i + 1 : 0; k < (upper ? n : i); ++k) {
        from[row] = k;
        const size_t f = size_t(ravel(from, result));
        v -= element(i, k) * x.v[f];
        size += std::fabs(element(i, k)) * x.magnitude[f];
      }
      const double pivot = o.unitriangular ? 1 : element(i, i);
      x.v[size_t(e)] = v / pivot;
      x.magnitude[size_t(e)] = size / std::fabs(pivot);
    }
  return x;
}

void add_solve(std::vector<OpCase>& rows) {
  OpCase c{"solve_triangular", {"solve_triangular"}, kTwo};
  using Case = std::tuple<Shape, Shape, SolveTriangularOptions>;
  for (const auto& [a, b, o] :
       {Case{{3, 3}, {3, 2}, {}},
        {{2, 3, 3}, {2, 3, 2}, {.upper = true}},
        {{3, 3}, {3, 2}, {.upper = true, .transposed = true}},
        {{3, 3}, {3, 4}, {.transposed = true}},
        {{3, 3}, {3, 2}, {.unitriangular = true}},
        {{3, 3}, {2, 3, 2}, {.upper = true, .unitriangular = true}},
        {{2, 1, 2, 2}, {3, 2, 3}, {}},
        {{1, 1}, {1, 1}, {}},
        {{0, 0}, {0, 2}, {}},
        {{3, 3}, {3, 0}, {}},
        {{33, 33}, {33, 5}, {}},
        {{2, 31, 31}, {2, 31, 3}, {.upper = true, .transposed = true, .unitriangular = true}}}) {
    Sample s{str(o.upper ? "upper" : "lower", o.transposed ? " transposed" : "",
                 o.unitriangular ? " unit" : ""),
             {{a, -0.3, 0.3}, {b}},
             [o = o](std::span<const Tensor> x) {
               return solve_triangular(x[0] + identity_like(x[0]), x[1], o);
             },
             [o = o](const std::vector<Array>& x) { return substituted(x[0], x[1], o); }};
    s.torch =
        str("torch.linalg.solve_triangular((a + torch.eye(a.shape[-1], dtype=a.dtype))",
            o.transposed ? ".mT" : "", ", b, upper=", o.upper != o.transposed ? "True" : "False",
            ", unitriangular=", o.unitriangular ? "True" : "False", ")");
    c.samples.push_back(std::move(s));
  }
  const Apply apply = [](const Tensor& a, const Tensor& b) { (void)solve_triangular(a, b); };
  c.errors = matrix_errors("solve_triangular", true,
                           [](const Tensor& a) { (void)solve_triangular(a, a); });
  c.errors.push_back(two_devices("solve_triangular", [apply](const Tensor& a, const Tensor& b) {
    apply(a.view({1, -1}), b.view({1, -1}));
  }));
  c.errors.push_back(error_input<ShapeError>(
      "rows", "[solve_triangular] a has 2 columns, b has 3 rows", [](Device d) {
        (void)solve_triangular(ones({2, 2}, {.device = d}), ones({3, 1}, {.device = d}));
      }));
  c.errors.push_back(error_input<ShapeError>("batch", "solve_triangular", [](Device d) {
    (void)solve_triangular(ones({2, 1, 1}, {.device = d}), ones({3, 1, 1}, {.device = d}));
  }));
  rows.push_back(std::move(c));
}

// --- qr ---
// |r| by Gram and Schmidt (twice, for the digits).
Matrix upper_of(const Matrix& a, i64 m, i64 n) {
  const i64 k = std::min(m, n);
  Matrix q = a, r(size_t(k * n), 0.0);
  for (i64 j = 0; j < n; ++j) {
    for (int round = 0; round < 2; ++round)
      for (i64 p = 0; p < std::min(j, k); ++p) {
        double dot = 0;
        for (i64 i = 0; i < m; ++i) dot += q[size_t(i * n + p)] * q[size_t(i * n + j)];
        for (i64 i = 0; i < m; ++i) q[size_t(i * n + j)] -= dot * q[size_t(i * n + p)];
        r[size_t(p * n + j)] += dot;
      }
    if (j >= k) continue;
    double size = 0;
    for (i64 i = 0; i < m; ++i) size += q[size_t(i * n + j)] * q[size_t(i * n + j)];
    r[size_t(j * n + j)] = std::sqrt(size);
    for (i64 i = 0; i < m; ++i) q[size_t(i * n + j)] /= std::sqrt(size);
  }
  for (double& v : r) v = std::fabs(v);
  return r;
}
Matrix identity(i64 n) {
  Matrix m(size_t(n * n), 0.0);
  for (i64 i = 0; i < n; ++i) m[size_t(i * n + i)] = 1;
  return m;
}

void add_qr(std::vector<OpCase>& rows) {
  OpCase c{"qr", {"qr"}, kTwo};
  for (const Shape& shape :
       {Shape{4, 3}, {3, 4}, {2, 3, 3}, {1, 1}, {5, 1}, {33, 7}, {0, 3}, {0, 2, 2}}) {
    const i64 m = shape[shape.ndim() - 2], n = side(shape), k = std::min(m, n);
    Shape r = shape, gram = shape;
    r[shape.ndim() - 2] = gram[shape.ndim() - 2] = gram[shape.ndim() - 1] = k;
    const auto add = [&](const std::string& label, const Shape& result, CheckedFunction call,
                         const std::function<Matrix(const Matrix&)>& f, const std::string& torch) {
      c.samples.push_back({label, {{shape}}, std::move(call), [=](const std::vector<Array>& x) {
                             return each_matrix(x[0], result, f);
                           }});
      c.samples.back().torch = torch;
    };
    add(
        "|r|", r, [](std::span<const Tensor> x) { return abs(qr(x[0]).r); },
        [=](const Matrix& a) { return upper_of(a, m, n); }, "torch.linalg.qr(a).R.abs()");
    add(
        "q r", shape,
        [](std::span<const Tensor> x) {
          const QrResult y = qr(x[0]);
          return matmul(y.q, y.r);
        },
        [](const Matrix& a) { return a; }, "");
    if (m == 0) continue;
    add(
        "q^T q", gram,
        [](std::span<const Tensor> x) {
          const Tensor q = qr(x[0]).q;
          return matmul(turned(q), q);
        },
        [k](const Matrix&) { return identity(k); }, "");
    c.samples.back().constant = true;
    // Equal columns, as layout e has them, leave the further columns of q to the roundings.
    for (Sample& s : c.samples) s.layouts = s.label == "q r";
  }
  c.errors = matrix_errors("qr", false, [](const Tensor& a) { (void)qr(a); });
  rows.push_back(std::move(c));
}

// --- eigh ---
Matrix symmetric(const Matrix& x, i64 n) {
  Matrix m(x.size());
  for (i64 i = 0; i < n; ++i)
    for (i64 j = 0; j < n; ++j)
      m[size_t(i * n + j)] = x[size_t(std::max(i, j) * n + std::min(i, j))];
  return m;
}
// Jacobi's rotations.
Matrix eigenvalues(Matrix m, i64 n) {
  const auto e = [&](i64 i, i64 j) -> double& { return m[size_t(i * n + j)]; };
  for (int sweep = 0; sweep < 60; ++sweep)
    for (i64 p = 0; p < n; ++p)
      for (i64 q = p + 1; q < n; ++q) {
        if (e(p, q) == 0) continue;
        const double angle = 0.5 * std::atan2(2 * e(p, q), e(q, q) - e(p, p));
        const double c = std::cos(angle), s = std::sin(angle);
        for (i64 k = 0; k < n; ++k) {
          const double u = e(k, p), v = e(k, q);
          e(k, p) = c * u - s * v, e(k, q) = s * u + c * v;
        }
        for (i64 k = 0; k < n; ++k) {
          const double u = e(p, k), v = e(q, k);
          e(p, k) = c * u - s * v, e(q, k) = s * u + c * v;
        }
      }
  Matrix values;
  for (i64 i = 0; i < n; ++i) values.push_back(e(i, i));
  std::sort(values.begin(), values.end());
  return values;
}

void add_eigh(std::vector<OpCase>& rows) {
  OpCase c{"eigh", {"eigh"}, kTwo};
  for (const Shape& shape : {Shape{3, 3}, {2, 4, 4}, {1, 1}, {7, 7}, {33, 33}, {0, 0}, {0, 2, 2}}) {
    const i64 n = side(shape);
    const auto add = [&](const std::string& label, const Shape& result, CheckedFunction call,
                         const std::function<Matrix(const Matrix&)>& f, const std::string& torch) {
      c.samples.push_back({label, {{shape}}, std::move(call), [=](const std::vector<Array>& x) {
                             return each_matrix(x[0], result, f);
                           }});
      c.samples.back().torch = torch;
    };
    add(
        "values", Shape(shape.data(), shape.ndim() - 1),
        [](std::span<const Tensor> x) { return eigh(x[0]).values; },
        [n](const Matrix& a) { return eigenvalues(symmetric(a, n), n); },
        "torch.linalg.eigh(a).eigenvalues");
    add(
        "v w v^T", shape,
        [](std::span<const Tensor> x) {
          const EighResult y = eigh(x[0]);
          return matmul(mul(y.vectors, y.values.unsqueeze(-2)), turned(y.vectors));
        },
        [n](const Matrix& a) { return symmetric(a, n); }, "");
    add(
        "v^T v", shape,
        [](std::span<const Tensor> x) {
          const Tensor v = eigh(x[0]).vectors;
          return matmul(turned(v), v);
        },
        [n](const Matrix&) { return identity(n); }, "");
    c.samples.back().constant = true;
  }
  c.errors = matrix_errors("eigh", true, [](const Tensor& a) { (void)eigh(a); });
  rows.push_back(std::move(c));
}

void add_decompose_cases(std::vector<OpCase>& rows) {
  add_cholesky(rows);
  add_solve(rows);
  add_qr(rows);
  add_eigh(rows);
}

const CaseFile file{add_decompose_cases};

}  // namespace
}  // namespace wt_test
