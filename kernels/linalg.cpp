// Linear algebra on the cpu by the textbook, in f64 (Golub and Van Loan, Matrix Computations, 4th
// edition: algorithms 4.2.1, 3.1.1, 5.2.1 and 8.5.3).
#include "warptape/kernels/linalg.h"

#include <algorithm>
#include <cmath>

#include "warptape/kernels/common/matrix_batch.h"
#include "warptape/kernels/cpu/linalg.h"

namespace wt {
namespace {

const char* why_not_type(DType t) {
  return t == DType::f32 || t == DType::f64 ? nullptr : "takes f32 and f64 only";
}
const char* why_not(const SolveTriangularArgs& a) { return why_not_type(a.a.dtype()); }
template <class Args>
const char* why_not(const Args& a) {
  return why_not_type(a.in.dtype());
}
template <class F>
void with_type(DType t, F&& f) {
  t == DType::f32 ? f.template operator()<float>() : f.template operator()<double>();
}

// --- cholesky ---

// The order of the first leading minor that is not positive, or 0.
template <class T>
i64 cholesky_of(T* l, const T* in, i64 n) {
  for (i64 i = 0; i < n; ++i) {
    for (i64 j = 0; j <= i; ++j) {
      double v = double(in[i * n + j]);
      for (i64 k = 0; k < j; ++k) v -= double(l[i * n + k]) * double(l[j * n + k]);
      if (i == j && !(v > 0)) return i + 1;  // nor if it is NaN
      l[i * n + j] = T(i == j ? std::sqrt(v) : v / double(l[j * n + j]));
    }
    for (i64 j = i + 1; j < n; ++j) l[i * n + j] = T(0);
  }
  return 0;
}

void cholesky_reference(const CholeskyArgs& a, const Launch&) {
  if (a.in.numel() == 0) return;
  const MatrixBatch m(a.in);
  with_type(a.in.dtype(), [&]<class T>() {
    for (i64 b = 0; b < m.count; ++b) {
      const i64 order =
          cholesky_of(a.out.as<T>() + b * m.size(), a.in.as<const T>() + b * m.size(), m.rows);
      if (order > 0 && a.failure->matrix < 0) *a.failure = {b, order};
    }
  });
}

// --- triangular systems: substitution, from the end of the diagonal that stands alone ---

template <class T>
void substitute(const SolveTriangularArgs& s, const T* a, T* x, i64 n, i64 columns) {
  const auto element = [&](i64 i, i64 j) {
    return double(s.transposed ? a[j * n + i] : a[i * n + j]);
  };
  const bool forward = s.upper == s.transposed;
  for (i64 step = 0; step < n; ++step) {
    const i64 i = forward ? step : n - 1 - step;
    for (i64 c = 0; c < columns; ++c) {
      double v = double(x[i * columns + c]);
      for (i64 j = forward ? 0 : i + 1; j < (forward ? i : n); ++j)
        v -= element(i, j) * double(x[j * columns + c]);
      x[i * columns + c] = T(s.unit ? v : v / element(i, i));
    }
  }
}

void solve_triangular_reference(const SolveTriangularArgs& a, const Launch&) {
  if (a.out.numel() == 0) return;
  const MatrixBatch m(a.a), x(a.out);
  with_type(a.out.dtype(), [&]<class T>() {
    for (i64 b = 0; b < x.count; ++b)
      substitute(a, a.a.as<const T>() + b * m.size(), a.out.as<T>() + b * x.size(), m.rows,
                 x.columns);
  });
}

// --- qr: Householder's reflections ---

// column -= 2 v (v . column) / (v . v), rows [from, m); v of zeros changes nothing.
void reflect(double* column, i64 step, const double* v, i64 from, i64 m) {
  double length = 0, dot = 0;
  for (i64 i = from; i < m; ++i) length += v[i] * v[i], dot += v[i] * column[i * step];
  if (length == 0) return;
  for (i64 i = from; i < m; ++i) column[i * step] -= 2 * dot / length * v[i];
}

// work: m n elements for r, then k m for the reflections' vectors, then m k for q.
template <class T>
void qr_of(T* q, T* r, const T* in, i64 m, i64 n, double* work) {
  const i64 k = std::min(m, n);
  double *const a = work, *const vectors = a + m * n, *const basis = vectors + k * m;
  for (i64 i = 0; i < m * n; ++i) a[i] = double(in[i]);
  for (i64 j = 0; j < k; ++j) {
    double* v = vectors + j * m;
    double below = 0;
    for (i64 i = j + 1; i < m; ++i) below += a[i * n + j] * a[i * n + j];
    // Turned to the side of the diagonal's element that loses no digits; a column that is done
    // already stays.
    const double head = a[j * n + j], size = std::sqrt(head * head + below);
    for (i64 i = j; i < m; ++i) v[i] = below == 0 ? 0 : a[i * n + j];
    if (below != 0) v[j] += head > 0 ? size : -size;
    for (i64 c = j; c < n; ++c) reflect(a + c, n, v, j, m);
  }
  for (i64 i = 0; i < k; ++i)
    for (i64 j = 0; j < n; ++j) r[i * n + j] = T(j < i ? 0 : a[i * n + j]);
  for (i64 i = 0; i < m; ++i)
    for (i64 j = 0; j < k; ++j) basis[i * k + j] = i == j;
  for (i64 j = k; j-- > 0;)
    for (i64 c = 0; c < k; ++c) reflect(basis + c, k, vectors + j * m, j, m);
  for (i64 i = 0; i < m * k; ++i) q[i] = T(basis[i]);
}

i64 qr_workspace(const QrArgs& a) {
  const MatrixBatch m(a.in);
  return (m.size() + 2 * m.rows * std::min(m.rows, m.columns)) * i64(sizeof(double));
}
void qr_reference(const QrArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  const MatrixBatch in(a.in), q(a.q), r(a.r);
  with_type(a.in.dtype(), [&]<class T>() {
    for (i64 b = 0; b < in.count; ++b)
      qr_of(a.q.as<T>() + b * q.size(), a.r.as<T>() + b * r.size(),
            a.in.as<const T>() + b * in.size(), in.rows, in.columns,
            static_cast<double*>(l.workspace));
  });
}

// --- eigh: Jacobi's rotations ---

// Makes a[p, q] zero; v collects the rotations.
void rotate(double* a, double* v, i64 n, i64 p, i64 q) {
  const double half = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
  const double t = (half < 0 ? -1 : 1) / (std::fabs(half) + std::sqrt(half * half + 1));
  const double c = 1 / std::sqrt(t * t + 1), s = t * c;
  const auto turn = [&](double& x, double& y) {
    const double before = x;
    x = c * before - s * y;
    y = s * before + c * y;
  };
  for (i64 i = 0; i < n; ++i) turn(a[i * n + p], a[i * n + q]);
  for (i64 i = 0; i < n; ++i) turn(a[p * n + i], a[q * n + i]);
  for (i64 i = 0; i < n; ++i) turn(v[i * n + p], v[i * n + q]);
  a[p * n + q] = a[q * n + p] = 0;  // what rounding leaves there may never get small enough
}

// False: no convergence. work: n n elements for the matrix, then as many for the vectors, then n
// places.
template <class T>
bool eigh_of(T* values, T* out, const T* in, i64 n, double* work) {
  constexpr int kSweeps = 50;  // a handful is enough; what is not finite never ends
  double *const a = work, *const v = a + n * n;
  double size = 0;
  for (i64 i = 0; i < n; ++i)
    for (i64 j = 0; j < n; ++j) {
      a[i * n + j] = double(in[std::max(i, j) * n + std::min(i, j)]);
      v[i * n + j] = i == j;
      size += a[i * n + j] * a[i * n + j];
    }
  const double nothing = 1e-17 * std::sqrt(size);
  bool done = false;
  for (int sweep = 0; sweep < kSweeps && !done; ++sweep) {
    done = true;
    for (i64 p = 0; p < n; ++p)
      for (i64 q = p + 1; q < n; ++q) {
        if (std::fabs(a[p * n + q]) <= nothing) continue;
        done = false;
        rotate(a, v, n, p, q);
      }
  }
  i64* const order = reinterpret_cast<i64*>(v + n * n);
  for (i64 i = 0; i < n; ++i) order[i] = i;
  std::sort(order, order + n, [&](i64 x, i64 y) { return a[x * n + x] < a[y * n + y]; });
  for (i64 j = 0; j < n; ++j) {
    values[j] = T(a[order[j] * n + order[j]]);
    for (i64 i = 0; i < n; ++i) out[i * n + j] = T(v[i * n + order[j]]);
  }
  return done;
}

i64 eigh_workspace(const EighArgs& a) {
  const MatrixBatch m(a.in);
  return (2 * m.size() + m.rows) * i64(sizeof(double));
}
void eigh_reference(const EighArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  const MatrixBatch m(a.in);
  with_type(a.in.dtype(), [&]<class T>() {
    for (i64 b = 0; b < m.count; ++b)
      if (!eigh_of(a.values.as<T>() + b * m.rows, a.vectors.as<T>() + b * m.size(),
                   a.in.as<const T>() + b * m.size(), m.rows, static_cast<double*>(l.workspace)) &&
          a.failure->matrix < 0)
        *a.failure = {b, 1};
  });
}

}  // namespace

WT_VARIANTS(
    cpu, cholesky, CholeskyArgs,
    {.name = "lapack", .rank = 10, .why_not = cholesky_lapack_why_not, .launch = cholesky_lapack},
    {.name = "reference", .why_not = why_not<CholeskyArgs>, .launch = cholesky_reference});
WT_VARIANTS(cpu, solve_triangular, SolveTriangularArgs,
            {.name = "blas",
             .rank = 10,
             .why_not = solve_triangular_blas_why_not,
             .launch = solve_triangular_blas},
            {.name = "reference", .why_not = why_not, .launch = solve_triangular_reference});
WT_VARIANTS(cpu, qr, QrArgs,
            {.name = "lapack",
             .rank = 10,
             .why_not = qr_lapack_why_not,
             .workspace = qr_lapack_workspace,
             .launch = qr_lapack},
            {.name = "reference",
             .why_not = why_not<QrArgs>,
             .workspace = qr_workspace,
             .launch = qr_reference});
WT_VARIANTS(cpu, eigh, EighArgs,
            {.name = "lapack",
             .rank = 10,
             .why_not = eigh_lapack_why_not,
             .workspace = eigh_lapack_workspace,
             .launch = eigh_lapack},
            {.name = "reference",
             .why_not = why_not<EighArgs>,
             .workspace = eigh_workspace,
             .launch = eigh_reference});

}  // namespace wt
