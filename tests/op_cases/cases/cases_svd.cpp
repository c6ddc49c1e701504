// Rows of singular values and vectors, of pseudo-inverses and ranks. What is compared does not
// depend on the signs of the vectors.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "warptape/autograd/ops/diagonal.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/svd.h"
#include "warptape/tests/op_cases/matrices.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

const std::vector<DType> kTwo{f64, f32};

i64 rows_of(const Shape& s) { return s[s.ndim() - 2]; }
i64 columns_of(const Shape& s) { return s[s.ndim() - 1]; }
i64 least(const Shape& s) { return std::min(rows_of(s), columns_of(s)); }
Shape with_sizes(const Shape& of, i64 rows, i64 columns) {
  Shape s = of;
  s[s.ndim() - 2] = rows, s[s.ndim() - 1] = columns;
  return s;
}
Tensor turned(const Tensor& t) { return t.transpose(-2, -1); }

// x = u diag(s) v^T of an m x n matrix, u and v with k columns.
struct Parts {
  i64 m, n, k;
  Matrix u, s, v;
};
// Hestenes' rotations of the columns of a tall matrix until a sweep changes nothing, or nearly; the
// sums are long doubles.
Parts tall_parts(Matrix a, i64 m, i64 n) {
  Matrix v(size_t(n * n), 0.0);
  for (i64 i = 0; i < n; ++i) v[size_t(i * n + i)] = 1;
  const auto dot = [&](i64 p, i64 q) {
    long double sum = 0;
    for (i64 i = 0; i < m; ++i)
      sum += static_cast<long double>(a[size_t(i * n + p)]) * a[size_t(i * n + q)];
    return sum;
  };
  for (int sweep = 0; sweep < 40; ++sweep)
    for (i64 p = 0; p < n; ++p)
      for (i64 q = p + 1; q < n; ++q) {
        const long double xx = dot(p, p), yy = dot(q, q), xy = dot(p, q);
        if (xy == 0) continue;
        const long double angle = 0.5L * std::atan2(2 * xy, yy - xx);
        const double c = double(std::cos(angle)), s = double(std::sin(angle));
        const auto turn = [&](Matrix& of, i64 rows) {
          for (i64 i = 0; i < rows; ++i) {
            double &x = of[size_t(i * n + p)], &y = of[size_t(i * n + q)];
            const double before = x;
            x = c * before - s * y, y = s * before + c * y;
          }
        };
        turn(a, m), turn(v, n);
      }
  std::vector<i64> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  Matrix lengths;
  for (i64 j = 0; j < n; ++j) lengths.push_back(double(std::sqrt(dot(j, j))));
  std::stable_sort(order.begin(), order.end(),
                   [&](i64 p, i64 q) { return lengths[size_t(p)] > lengths[size_t(q)]; });
  Parts y{m, n, n, Matrix(size_t(m * n)), Matrix(size_t(n)), Matrix(size_t(n * n))};
  for (i64 j = 0; j < n; ++j) {
    const i64 from = order[size_t(j)];
    y.s[size_t(j)] = lengths[size_t(from)];
    for (i64 i = 0; i < m; ++i)
      y.u[size_t(i * n + j)] = a[size_t(i * n + from)] / lengths[size_t(from)];
    for (i64 i = 0; i < n; ++i) y.v[size_t(i * n + j)] = v[size_t(i * n + from)];
  }
  return y;
}
Parts parts(const Matrix& a, i64 m, i64 n) {
  if (m >= n) return tall_parts(a, m, n);
  Matrix flipped(a.size());
  for (i64 i = 0; i < m; ++i)
    for (i64 j = 0; j < n; ++j) flipped[size_t(j * m + i)] = a[size_t(i * n + j)];
  Parts y = tall_parts(std::move(flipped), n, m);
  std::swap(y.u, y.v), std::swap(y.m, y.n);
  return y;
}
// u f(s) v^T.
Matrix composed(const Parts& p, const std::function<double(double)>& f) {
  Matrix y(size_t(p.m * p.n), 0.0);
  for (i64 i = 0; i < p.m; ++i)
    for (i64 j = 0; j < p.n; ++j)
      for (i64 c = 0; c < p.k; ++c)
        y[size_t(i * p.n + j)] +=
            p.u[size_t(i * p.k + c)] * f(p.s[size_t(c)]) * p.v[size_t(j * p.k + c)];
  return y;
}

// Added to small numbers it gives singular values near 1, 2, 3, ..., whatever the layout, none of
// them near 0: no two near each other with step 1, all near 1 with step 0.
double spread(i64 i, i64 j, i64 step) { return i == j ? double(1 + step * i) : 0; }
Tensor spread_like(const Tensor& t, i64 step = 1) {
  const i64 m = t.size(-2), n = t.size(-1);
  std::vector<double> v;
  for (i64 i = 0; i < m * n; ++i) v.push_back(spread(i / n, i % n, step));
  return tensor(v).view({m, n}).to(t.dtype()).to(t.device());
}
const char* const kSpread =
    "(a + torch.diag(torch.arange(1., max(a.shape[-2:]) + 1, dtype=a.dtype))[:a.shape[-2], "
    ":a.shape[-1]])";
const char* const kNear = "(a + torch.eye(a.shape[-2], a.shape[-1], dtype=a.dtype))";

struct Way {
  std::string label;
  Shape result;
  std::function<Tensor(const Tensor&)> call;
  OfMatrix oracle;
  std::string torch;  // with %s for the matrix
};
std::string filled_in(std::string text, const std::string& matrix) {
  for (size_t at; (at = text.find("%s")) != std::string::npos;) text.replace(at, 2, matrix);
  return text;
}
Sample plain(const Shape& shape, const Way& w) {
  Sample s{w.label,
           {{shape}},
           [call = w.call](std::span<const Tensor> x) { return call(x[0]); },
           [w](const std::vector<Array>& x) { return each_matrix(x[0], w.result, w.oracle); }};
  s.torch = filled_in(w.torch, "a");
  s.gradients = false;
  return s;
}
// Of well conditioned matrices: with derivatives.
Sample shifted(const Shape& shape, const Way& w, i64 step) {
  Sample s{w.label + (step ? ", apart" : ", near 1"),
           {{shape, -0.1, 0.1}},
           [=, call = w.call](std::span<const Tensor> x) {
             return call(x[0] + spread_like(x[0], step));
           },
           [=, n = columns_of(shape)](const std::vector<Array>& x) {
             return each_matrix(x[0], w.result, [&](Matrix m) {
               for (size_t i = 0; i < m.size(); ++i) m[i] += spread(i64(i) / n, i64(i) % n, step);
               return w.oracle(m);
             });
           }};
  s.torch = filled_in(w.torch, step ? kSpread : kNear);
  return s;
}
Sample apart(const Shape& shape, const Way& w) { return shifted(shape, w, 1); }

std::vector<ErrorInput> matrix_errors(const std::string& name, const OfOne& f) {
  return {undefined_input(name, f),
          fails<ShapeError>("rank", "[" + name + "] a must have at least 2 dimensions", {2}, f),
          fails<DtypeError>("dtype", "[" + name + "] a must be f32 or f64, got f16", {2, 2},
                            [f](const Tensor& x) { return f(x.to(DType::f16)); }),
          fails<NumericError>(
              "nan", "[" + name + "] the iteration does not converge for matrix 1 (with NaN",
              {2, 2, 2}, [f](const Tensor& x) {
                return f(x * tensor({1.0, NAN}).view({2, 1, 1}).to(x.device()));
              })};
}

// --- svd ---

Shape values_shape(const Shape& s) {
  Shape y(s.data(), s.ndim() - 1);
  y[y.ndim() - 1] = least(s);
  return y;
}
Way values(const Shape& s, const OfOne& call, const std::string& torch) {
  return {"s", values_shape(s), call,
          [m = rows_of(s), n = columns_of(s)](const Matrix& a) { return parts(a, m, n).s; }, torch};
}
Matrix identity(i64 n) {
  Matrix m(size_t(n * n), 0.0);
  for (i64 i = 0; i < n; ++i) m[size_t(i * n + i)] = 1;
  return m;
}
Tensor composed(const SvdResult& y, const Tensor& s) {
  const i64 k = y.s.size(-1);
  return matmul(mul(slice(y.u, -1, {0, k}), s.unsqueeze(-2)), slice(y.vh, -2, {0, k}));
}
std::string torch_svd(const std::string& of, const char* full = "False") {
  return "(lambda u, s, vh: " + of + ")(*torch.linalg.svd(%s, full_matrices=" + full + "))";
}

void add_bases(OpCase& c, const Shape& s, bool full) {
  const i64 m = rows_of(s), n = columns_of(s), k = least(s);
  const std::string label = full ? "full" : "reduced";
  c.samples.push_back(plain(s, {label + " u s vh", s,
                                [full](const Tensor& x) {
                                  const SvdResult y = svd(x, {.full_matrices = full});
                                  return composed(y, y.s);
                                },
                                [](const Matrix& a) { return a; }, ""}));
  const i64 wide = full ? m : k, high = full ? n : k;
  c.samples.push_back(plain(s, {label + " u^T u", with_sizes(s, wide, wide),
                                [full](const Tensor& x) {
                                  const Tensor u = svd(x, {.full_matrices = full}).u;
                                  return matmul(turned(u), u);
                                },
                                [wide](const Matrix&) { return identity(wide); }, ""}));
  c.samples.back().constant = true;
  c.samples.push_back(plain(s, {label + " vh vh^T", with_sizes(s, high, high),
                                [full](const Tensor& x) {
                                  const Tensor vh = svd(x, {.full_matrices = full}).vh;
                                  return matmul(vh, turned(vh));
                                },
                                [high](const Matrix&) { return identity(high); }, ""}));
  c.samples.back().constant = true;
}

// What depends on all three parts, or on one alone, in ways that have derivatives.
void add_gradients(OpCase& c, const Shape& s) {
  const i64 m = rows_of(s), n = columns_of(s);
  c.samples.push_back(
      apart(s, values(
                   s, [](const Tensor& x) { return svd(x).s; }, torch_svd("s", "True"))));
  c.samples.push_back(apart(s, {"u s^3 vh", s,
                                [](const Tensor& x) {
                                  const SvdResult y = svd(x);
                                  return composed(y, y.s * y.s * y.s);
                                },
                                [=](const Matrix& a) {
                                  return composed(parts(a, m, n),
                                                  [](double v) { return v * v * v; });
                                },
                                torch_svd("(u * (s * s * s).unsqueeze(-2)) @ vh")}));
  c.samples.push_back(apart(
      s, {"u vh", s,
          [](const Tensor& x) {
            const SvdResult y = svd(x, {.full_matrices = false});
            return matmul(y.u, y.vh);
          },
          [=](const Matrix& a) { return composed(parts(a, m, n), [](double) { return 1.0; }); },
          torch_svd("u @ vh")}));
  // The vector of the largest value, by itself: u's alone, vh's alone.
  const auto projector = [](const Matrix& of, i64 rows, i64 k) {
    Matrix y;
    for (i64 i = 0; i < rows; ++i)
      for (i64 j = 0; j < rows; ++j) y.push_back(of[size_t(i * k)] * of[size_t(j * k)]);
    return y;
  };
  c.samples.push_back(apart(s, {"u0 u0^T", with_sizes(s, m, m),
                                [](const Tensor& x) {
                                  const Tensor u = slice(svd(x).u, -1, {0, 1});
                                  return matmul(u, turned(u));
                                },
                                [=](const Matrix& a) {
                                  const Parts p = parts(a, m, n);
                                  return projector(p.u, m, p.k);
                                },
                                torch_svd("u[..., :1] @ u[..., :1].mT")}));
  c.samples.push_back(apart(s, {"v0 v0^T", with_sizes(s, n, n),
                                [](const Tensor& x) {
                                  const Tensor v = slice(svd(x).vh, -2, {0, 1});
                                  return matmul(turned(v), v);
                                },
                                [=](const Matrix& a) {
                                  const Parts p = parts(a, m, n);
                                  return projector(p.v, n, p.k);
                                },
                                torch_svd("vh[..., :1, :].mT @ vh[..., :1, :]")}));
}

void add_svd(std::vector<OpCase>& rows) {
  OpCase c{"svd", {"svd"}, kTwo};
  OpCase v{"svdvals", {"svd"}, kTwo};
  for (const Shape& s : {Shape{4, 3},
                         {3, 4},
                         {2, 3, 3},
                         {1, 1},
                         {1, 5},
                         {5, 1},
                         {7, 7},
                         {33, 7},
                         {6, 35},
                         {2, 1, 2, 3},
                         {0, 3},
                         {3, 0},
                         {0, 2, 2}}) {
    c.samples.push_back(
        plain(s, values(
                     s, [](const Tensor& x) { return svd(x).s; }, torch_svd("s", "True"))));
    v.samples.push_back(
        plain(s, values(
                     s, [](const Tensor& x) { return svdvals(x); }, "torch.linalg.svdvals(%s)")));
    add_bases(c, s, false);
    add_bases(c, s, true);
  }
  for (const Shape& s : {Shape{4, 3}, {3, 4}, {2, 3, 3}, {2, 5, 2}}) {
    add_gradients(c, s);
    v.samples.push_back(
        apart(s, values(
                     s, [](const Tensor& x) { return svdvals(x); }, "torch.linalg.svdvals(%s)")));
  }
  c.errors = matrix_errors("svd", [](const Tensor& x) { return svd(x).s; });
  v.errors = matrix_errors("svdvals", [](const Tensor& x) { return svdvals(x); });
  rows.push_back(std::move(c));
  rows.push_back(std::move(v));
}

// --- pinv and matrix_rank ---

Matrix pinv_of(const Matrix& a, i64 m, i64 n) {
  const Parts p = parts(a, m, n);
  Matrix y(a.size(), 0.0);
  for (i64 c = 0; c < p.k; ++c) {
    if (!(p.s[size_t(c)] > 1e-9 * p.s[0])) continue;
    for (i64 i = 0; i < n; ++i)
      for (i64 j = 0; j < m; ++j)
        y[size_t(i * m + j)] +=
            p.v[size_t(i * p.k + c)] * p.u[size_t(j * p.k + c)] / p.s[size_t(c)];
  }
  return y;
}

void add_pinv(std::vector<OpCase>& rows) {
  OpCase c{"pinv", {"svd"}, kTwo};
  for (const Shape& s :
       {Shape{4, 3}, {3, 4}, {2, 3, 3}, {1, 1}, {2, 1, 2, 3}, {5, 2}, {0, 3}, {2, 0, 2}}) {
    const i64 m = rows_of(s), n = columns_of(s);
    c.samples.push_back(
        shifted(s,
                {"full rank", with_sizes(s, n, m), [](const Tensor& x) { return pinv(x); },
                 [=](const Matrix& a) { return pinv_of(a, m, n); }, "torch.linalg.pinv(%s)"},
                0));
  }
  // Of rank 1, which it keeps.
  for (const auto& [m, n] : {std::pair<i64, i64>{3, 4}, {4, 2}}) {
    Sample s{"rank 1",
             {{{m, 1}, 0.5, 2}, {{1, n}, 0.5, 2}},
             [](std::span<const Tensor> x) { return pinv(matmul(x[0], x[1])); },
             [m = m, n = n](const std::vector<Array>& x) {
               double size = 0, other = 0;
               for (const double v : x[0].v) size += v * v;
               for (const double v : x[1].v) other += v * v;
               Array y = elements({n, m}, [&](const std::vector<Array>& in, const Place& i) {
                 return in[1].v[size_t(i[0])] * in[0].v[size_t(i[1])] / (size * other);
               })(x);
               y.terms = kTermsOfFormula + 4 * double(m + n);
               y.magnitude.assign(y.v.size(), 4 * *std::max_element(y.v.begin(), y.v.end()));
               return y;
             }};
    s.torch = "torch.linalg.pinv(a @ b)";
    c.samples.push_back(std::move(s));
  }
  c.samples.push_back(apart({4, 3}, {"the smallest counts as 0",
                                     {3, 4},
                                     [](const Tensor& x) { return pinv(x, {.rtol = 0.5}); },
                                     [](const Matrix& a) {
                                       Parts p = parts(a, 4, 3);
                                       p.s[2] = 0;
                                       const Matrix cut = composed(p, [](double v) { return v; });
                                       return pinv_of(cut, 4, 3);
                                     },
                                     "torch.linalg.pinv(%s, rtol=0.5)"}));
  // The formula is that of a constant rank, which this matrix has not.
  c.samples.back().gradients = false;
  c.errors = matrix_errors("pinv", [](const Tensor& x) { return pinv(x); });
  c.errors.push_back(fails<UsageError>("tolerance", "[pinv] a tolerance is -1, below 0", {2, 2},
                                       [](const Tensor& x) { return pinv(x, {.atol = -1}); }));
  rows.push_back(std::move(c));
}

void add_rank(std::vector<OpCase>& rows) {
  OpCase c{"matrix_rank", {"svd"}, kTwo, ResultType::i64};
  c.mostly_constant = true;
  using Case = std::tuple<Shape, Shape, i64>;
  for (const auto& [a, b, rank] : {Case{{4, 2}, {2, 5}, 2},
                                   {{3, 4, 1}, {3, 1, 3}, 1},
                                   {{3, 3}, {3, 4}, 3},
                                   {{3, 0}, {0, 4}, 0},
                                   {{0, 2}, {2, 3}, 0},
                                   {{0, 2, 2}, {0, 2, 2}, 2}}) {
    const Shape batch(a.data(), a.ndim() - 2);
    // Of the rank of what is added to them, in every layout.
    Sample s{str("rank ", rank),
             {{a, 0.5, 2}, {b, 0.5, 2}},
             [](std::span<const Tensor> x) {
               return matrix_rank(matmul(mul(x[0], 0.01) + spread_like(x[0]),
                                         mul(x[1], 0.01) + spread_like(x[1])));
             },
             [batch, rank = rank](const std::vector<Array>&) {
               return filled(batch, [rank](const std::vector<i64>&) { return double(rank); });
             }};
    const std::string spread =
        "torch.diag(torch.arange(1., max(%s.shape[-2:]) + 1, "
        "dtype=%s.dtype))[:%s.shape[-2], :%s.shape[-1]]";
    s.torch = "torch.linalg.matrix_rank((0.01 * a + " + filled_in(spread, "a") +
              ") @ (0.01 * b + " + filled_in(spread, "b") + "))";
    c.samples.push_back(std::move(s));
  }
  c.samples.push_back(one_input(
      "torch.linalg.matrix_rank(torch.diag(a), atol=1.0, rtol=0.0)", {4},
      [](const Tensor& x) { return matrix_rank(diag_embed(x), {.atol = 1, .rtol = 0}); },
      [](const std::vector<Array>& x) {
        double n = 0;
        for (const double v : x[0].v) n += std::fabs(v) > 1;
        return Array{{}, {n}};
      }));
  c.errors = matrix_errors("matrix_rank", [](const Tensor& x) { return matrix_rank(x); });
  rows.push_back(std::move(c));
}

void add_svd_cases(std::vector<OpCase>& rows) {
  add_svd(rows);
  add_pinv(rows);
  add_rank(rows);
}

const CaseFile file{add_svd_cases};

}  // namespace
}  // namespace wt_test
