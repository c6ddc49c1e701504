// Matrices taken apart one after the other by the textbook (Golub and Van Loan, Matrix
// Computations, 4th edition: algorithms 4.2.1, 3.1.1, 5.2.1 and 8.5.3), computed in double: the
// references of kernels/linalg/linalg.cpp, and what one thread of a GPU does in the plainest
// kernel. Matrices are dense, in C order.
#pragma once
#include <math.h>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

// What a matrix is multiplied by, a power of two that changes no digit: its largest element then is
// near 1, and squares neither overflow nor vanish. 1 for a matrix of zeros, and for one with
// infinities.
template <class T>
WT_HD T scale_of(T largest) {
  constexpr int kMost = sizeof(T) == 4 ? 120 : 1000;  // 1 / scale must be a number too
  int exponent = 0;
  if (largest > 0 && largest < INFINITY) frexp(double(largest), &exponent);
  exponent = exponent > kMost ? kMost : exponent < -kMost ? -kMost : exponent;
  return T(ldexp(1.0, -exponent));
}

// --- cholesky ---

// The order of the first leading minor that is not positive, or 0.
template <class T>
WT_HD i32 cholesky_of(T* l, const T* in, i64 n) {
  for (i64 i = 0; i < n; ++i) {
    for (i64 j = 0; j <= i; ++j) {
      double v = double(in[i * n + j]);
      for (i64 k = 0; k < j; ++k) v -= double(l[i * n + k]) * double(l[j * n + k]);
      if (i == j && !(v > 0)) return i32(i + 1);  // nor if it is NaN
      l[i * n + j] = T(i == j ? sqrt(v) : v / double(l[j * n + j]));
    }
    for (i64 j = i + 1; j < n; ++j) l[i * n + j] = T(0);
  }
  return 0;
}

// --- triangular systems: substitution, from the end of the diagonal that stands alone ---

// How solve_triangular reads its matrix.
struct Triangle {
  bool upper, transposed, unit;
  WT_HD bool forward() const { return upper == transposed; }
};

// Columns [begin, end) of the right sides x [n, columns].
template <class T>
WT_HD void substitute(Triangle s, const T* a, T* x, i64 n, i64 columns, i64 begin, i64 end) {
  const i64 row = s.transposed ? 1 : n, column = s.transposed ? n : 1;
  const bool forward = s.forward();
  for (i64 step = 0; step < n; ++step) {
    const i64 i = forward ? step : n - 1 - step;
    for (i64 c = begin; c < end; ++c) {
      double v = double(x[i * columns + c]);
      for (i64 j = forward ? 0 : i + 1; j < (forward ? i : n); ++j)
        v -= double(a[i * row + j * column]) * double(x[j * columns + c]);
      x[i * columns + c] = T(s.unit ? v : v / double(a[i * (n + 1)]));
    }
  }
}

// --- qr: Householder's reflections ---

// What makes a vector's head the only one that is left: v = (head + turn, rest). Turned to the side
// of the head that loses no digits.
template <class T>
WT_HD T turn_of(T head, T squares_below) {
  const T size = sqrt(head * head + squares_below);
  return head > 0 ? size : -size;
}

// column -= 2 v (v . column) / (v . v), rows [from, m); v of zeros changes nothing.
WT_HD inline void reflect(double* column, i64 step, const double* v, i64 from, i64 m) {
  double length = 0, dot = 0;
  for (i64 i = from; i < m; ++i) length += v[i] * v[i], dot += v[i] * column[i * step];
  if (length == 0) return;
  for (i64 i = from; i < m; ++i) column[i * step] -= 2 * dot / length * v[i];
}

WT_HD inline i64 qr_work(i64 m, i64 n) { return m * n + 2 * m * (m < n ? m : n); }

// work: qr_work elements: m n for r, then k m for the reflections' vectors, then m k for q.
template <class T>
WT_HD void qr_of(T* q, T* r, const T* in, i64 m, i64 n, double* work) {
  const i64 k = m < n ? m : n;
  double *const a = work, *const vectors = a + m * n, *const basis = vectors + k * m;
  double largest = 0;
  for (i64 i = 0; i < m * n; ++i) largest = fmax(largest, fabs(double(in[i])));
  const double scale = scale_of(largest), back = 1 / scale;
  for (i64 i = 0; i < m * n; ++i) a[i] = double(in[i]) * scale;
  for (i64 j = 0; j < k; ++j) {
    double* v = vectors + j * m;
    double below = 0;
    for (i64 i = j + 1; i < m; ++i) below += a[i * n + j] * a[i * n + j];
    for (i64 i = j; i < m; ++i) v[i] = below == 0 ? 0 : a[i * n + j];
    // A column that is done already stays.
    if (below != 0) v[j] += turn_of(a[j * n + j], below);
    for (i64 c = j; c < n; ++c) reflect(a + c, n, v, j, m);
  }
  for (i64 i = 0; i < k; ++i)
    for (i64 j = 0; j < n; ++j) r[i * n + j] = T(j < i ? 0 : a[i * n + j] * back);
  for (i64 i = 0; i < m; ++i)
    for (i64 j = 0; j < k; ++j) basis[i * k + j] = i == j;
  for (i64 j = k; j-- > 0;)
    for (i64 c = 0; c < k; ++c) reflect(basis + c, k, vectors + j * m, j, m);
  for (i64 i = 0; i < m * k; ++i) q[i] = T(basis[i]);
}

// --- eigh: Jacobi's rotations ---

constexpr int kJacobiSweeps = 50;  // a handful is enough

// What is smaller than this part of the whole matrix is taken for 0.
template <class T>
constexpr T kJacobiZero = sizeof(T) == 4 ? T(6e-9) : T(1e-17);

template <class T>
struct Rotation {
  T c, s;
  WT_HD void turn(T& x, T& y) const {
    const T before = x;
    x = c * before - s * y;
    y = s * before + c * y;
  }
};
// The one that makes `between` zero, which lies between the places pp and qq of the diagonal.
template <class T>
WT_HD Rotation<T> rotation_of(T pp, T between, T qq) {
  const T half = (qq - pp) / (2 * between);
  const T t = (half < 0 ? T(-1) : T(1)) / (fabs(half) + sqrt(half * half + 1));
  const T c = 1 / sqrt(t * t + 1);
  return {c, t * c};
}

// Makes a[p, q] zero; v collects the rotations.
WT_HD inline void rotate(double* a, double* v, i64 n, i64 p, i64 q) {
  const auto r = rotation_of(a[p * n + p], a[p * n + q], a[q * n + q]);
  for (i64 i = 0; i < n; ++i) r.turn(a[i * n + p], a[i * n + q]);
  for (i64 i = 0; i < n; ++i) r.turn(a[p * n + i], a[q * n + i]);
  for (i64 i = 0; i < n; ++i) r.turn(v[i * n + p], v[i * n + q]);
  a[p * n + q] = a[q * n + p] = 0;  // what rounding leaves there may never get small enough
}

// Where element i of the diagonal comes among the n in ascending order; NaN is the largest, and
// equals stay in their order. n comparisons for each are nothing beside the rotations.
template <class T>
WT_HD i64 rank_on_diagonal(const T* a, i64 step, i64 n, i64 i) {
  const auto less = [](T x, T y) { return x < y || (x == x && y != y); };
  const T own = a[i * step];
  i64 rank = 0;
  for (i64 j = 0; j < n; ++j) rank += j < i ? !less(own, a[j * step]) : less(a[j * step], own);
  return rank;
}

WT_HD inline i64 eigh_work(i64 n) { return 2 * n * n; }

// 1: no convergence, else 0. work: eigh_work elements: n n for the matrix, then as many for the
// vectors.
template <class T>
WT_HD i32 eigh_of(T* values, T* out, const T* in, i64 n, double* work) {
  double *const a = work, *const v = a + n * n;
  double largest = 0, size = 0;
  for (i64 i = 0; i < n; ++i)
    for (i64 j = 0; j <= i; ++j) largest = fmax(largest, fabs(double(in[i * n + j])));
  const double scale = scale_of(largest), back = 1 / scale;
  for (i64 i = 0; i < n; ++i)
    for (i64 j = 0; j < n; ++j) {
      a[i * n + j] = scale * double(i < j ? in[j * n + i] : in[i * n + j]);
      v[i * n + j] = i == j;
      size += a[i * n + j] * a[i * n + j];
    }
  if (!(size < INFINITY)) return 1;  // or NaN: that would never end
  const double nothing = kJacobiZero<double> * sqrt(size);
  bool done = false;
  for (int sweep = 0; sweep < kJacobiSweeps && !done; ++sweep) {
    done = true;
    for (i64 p = 0; p < n; ++p)
      for (i64 q = p + 1; q < n; ++q) {
        if (fabs(a[p * n + q]) <= nothing) continue;
        done = false;
        rotate(a, v, n, p, q);
      }
  }
  for (i64 i = 0; i < n; ++i) {
    const i64 to = rank_on_diagonal(a, n + 1, n, i);
    values[to] = T(a[i * n + i] * back);
    for (i64 k = 0; k < n; ++k) out[k * n + to] = T(v[k * n + i]);
  }
  return done ? 0 : 1;
}

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
