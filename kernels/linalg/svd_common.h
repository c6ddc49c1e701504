// One-sided rotations of Jacobi (Hestenes; Golub and Van Loan, Matrix Computations, 4th edition:
// section 8.6.3), computed in double: the reference of kernels/linalg/svd.cpp, and what one thread
// of a GPU does in the plainest kernel. Columns of a tall matrix, rows of a wide one, are turned in
// pairs until all are orthogonal: their lengths are the singular values.
#pragma once
#include "warptape/kernels/linalg/decompositions.h"
#include "warptape/kernels/linalg/matrix_batch.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

// The sides of one matrix. The `count` vectors of the longer side, `wanted` of which leave, are
// `length` long; those of the shorter side are `count` long.
struct SvdShape {
  i64 m, n, wanted;
  bool tall, vectors;
  WT_HD i64 count() const { return tall ? n : m; }
  WT_HD i64 length() const { return tall ? m : n; }
  // Where element i of vector j of the longer side lies, in the matrix and in its result.
  WT_HD i64 in(i64 j, i64 i) const { return tall ? i * n + j : j * n + i; }
  WT_HD i64 out(i64 j, i64 i) const { return tall ? i * wanted + j : j * n + i; }
  // The same of the shorter side's result.
  WT_HD i64 out_short(i64 j, i64 i) const { return tall ? j * n + i : i * m + j; }
};

template <class Args>
SvdShape svd_shape(const Args& a) {
  const MatrixBatch m(a.in);
  SvdShape s{m.rows, m.columns, 0, m.rows >= m.columns, a.vectors()};
  if (s.vectors) s.wanted = s.tall ? MatrixBatch(a.u).columns : MatrixBatch(a.vh).rows;
  return s;
}

// Two vectors whose cosine is below this part are orthogonal: what rounding leaves of a dot
// product.
template <class T>
WT_HD T orthogonal(i64 length) {
  return (sizeof(T) == 4 ? T(0x1p-23) : T(0x1p-52)) * sqrt(T(length));
}
// A vector whose square is no more is 0, beside elements near 1: its digits are lost, and so is its
// direction.
template <class T>
constexpr T kNoLength = sizeof(T) == 4 ? T(1e-32) : T(1e-290);

// Turns x and y, whose squares are xx and yy and whose product is xy, so that they are orthogonal.
// Vectors of very different lengths need angles whose cotangent has no square.
template <class T>
WT_HD Rotation<T> rotation_of_vectors(T xx, T xy, T yy) {
  const T half = (yy - xx) / (2 * xy);
  if (!(fabs(half) > T(1e9))) return rotation_of(xx, xy, yy);
  return {T(1), 1 / (2 * half)};
}
template <class T>
WT_HD bool must_turn(T xx, T xy, T yy, T cosine) {
  return xx > kNoLength<T> && yy > kNoLength<T> && fabs(xy) > cosine * sqrt(xx) * sqrt(yy);
}

// Where vector i comes among the n whose lengths are `lengths`, the longest first; equals stay in
// their order.
template <class T>
WT_HD i64 rank_of_length(const T* lengths, i64 n, i64 i) {
  i64 rank = 0;
  for (i64 j = 0; j < n; ++j) rank += j < i ? lengths[j] >= lengths[i] : lengths[j] > lengths[i];
  return rank;
}

// Vectors [from, to) of `basis`, which is orthonormal up to there: each is what the others leave of
// the axis that is farthest from them, taken off twice for the digits.
WT_HD inline void complete_basis(double* basis, i64 length, i64 from, i64 to) {
  for (i64 c = from; c < to; ++c) {
    i64 axis = 0;
    double least = INFINITY;
    for (i64 i = 0; i < length; ++i) {
      double inside = 0;
      for (i64 j = 0; j < c; ++j) inside += basis[j * length + i] * basis[j * length + i];
      if (inside < least) least = inside, axis = i;
    }
    double* const x = basis + c * length;
    for (i64 i = 0; i < length; ++i) x[i] = i == axis;
    double square = 0;
    for (int round = 0; round < 2; ++round) {
      for (i64 j = 0; j < c; ++j) {
        const double* const v = basis + j * length;
        double dot = 0;
        for (i64 i = 0; i < length; ++i) dot += v[i] * x[i];
        for (i64 i = 0; i < length; ++i) x[i] -= dot * v[i];
      }
    }
    for (i64 i = 0; i < length; ++i) square += x[i] * x[i];
    for (i64 i = 0; i < length; ++i) x[i] /= sqrt(square);
  }
}

// Doubles: vectors of the longer side as they turn, and in their order; those of the shorter side;
// lengths.
WT_HD inline i64 svd_work(const SvdShape& s) {
  const i64 k = s.count();
  return k * s.length() + (s.vectors ? s.wanted * s.length() + k * k : 0) + k;
}

// 1: no convergence, else 0. `longer` and `shorter` are the results of the two sides.
template <class T>
WT_HD i32 svd_of(T* longer, T* shorter, T* values, const T* in, const SvdShape& s, double* work) {
  const i64 k = s.count(), length = s.length();
  double *const a = work, *const lengths = a + k * length, *const turns = lengths + k;
  double* const basis = turns + k * k;
  double largest = 0, size = 0;
  for (i64 i = 0; i < s.m * s.n; ++i) largest = fmax(largest, fabs(double(in[i])));
  const double scale = scale_of(largest), back = 1 / scale;
  for (i64 j = 0; j < k; ++j)
    for (i64 i = 0; i < length; ++i) {
      a[j * length + i] = scale * double(in[s.in(j, i)]);
      size += a[j * length + i] * a[j * length + i];
    }
  if (!(size < INFINITY)) return 1;  // or NaN: that would never end
  for (i64 i = 0; s.vectors && i < k * k; ++i) turns[i] = i / k == i % k;
  const double cosine = orthogonal<double>(length);
  bool done = false;
  for (int sweep = 0; sweep < kJacobiSweeps && !done; ++sweep) {
    done = true;
    for (i64 p = 0; p < k; ++p)
      for (i64 q = p + 1; q < k; ++q) {
        double *const x = a + p * length, *const y = a + q * length;
        double xx = 0, xy = 0, yy = 0;
        for (i64 i = 0; i < length; ++i) xx += x[i] * x[i], xy += x[i] * y[i], yy += y[i] * y[i];
        if (!must_turn(xx, xy, yy, cosine)) continue;
        done = false;
        const auto r = rotation_of_vectors(xx, xy, yy);
        for (i64 i = 0; i < length; ++i) r.turn(x[i], y[i]);
        for (i64 i = 0; s.vectors && i < k; ++i) r.turn(turns[p * k + i], turns[q * k + i]);
      }
  }
  i64 found = 0;
  for (i64 j = 0; j < k; ++j) {
    double square = 0;
    for (i64 i = 0; i < length; ++i) square += a[j * length + i] * a[j * length + i];
    lengths[j] = sqrt(square);
    found += square > kNoLength<double>;
  }
  for (i64 j = 0; j < k; ++j) {
    const i64 to = rank_of_length(lengths, k, j);
    values[to] = T(lengths[j] * back);
    if (!s.vectors) continue;
    for (i64 i = 0; i < k; ++i) shorter[s.out_short(to, i)] = T(turns[j * k + i]);
    for (i64 i = 0; to < found && i < length; ++i)
      basis[to * length + i] = a[j * length + i] / lengths[j];
  }
  if (s.vectors) {
    complete_basis(basis, length, found, s.wanted);
    for (i64 j = 0; j < s.wanted; ++j)
      for (i64 i = 0; i < length; ++i) longer[s.out(j, i)] = T(basis[j * length + i]);
  }
  return done ? 0 : 1;
}

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
