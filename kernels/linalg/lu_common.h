// A = P L U by the textbook (Golub and Van Loan, Matrix Computations, 4th edition: algorithm 3.4.1,
// by columns), products added in double. Matrices are dense, in C order.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

// What kernels/lu.h says of one matrix; returns its info. A NaN is taken for the largest pivot, so
// that it spreads.
template <class T>
WT_HD i32 lu_of(T* out, i64* rows, T* sign, const T* in, i64 n) {
  i32 info = 0;
  *sign = T(1);
  for (i64 i = 0; i < n * n; ++i) out[i] = in[i];
  for (i64 i = 0; i < n; ++i) rows[i] = i;
  for (i64 j = 0; j < n; ++j) {
    i64 best = j;
    T most = T(-1);
    for (i64 i = 0; i < n; ++i) {
      double v = double(out[i * n + j]);
      for (i64 k = 0; k < (i < j ? i : j); ++k)
        v -= double(out[i * n + k]) * double(out[k * n + j]);
      out[i * n + j] = T(v);
      const T size = out[i * n + j] < 0 ? -out[i * n + j] : out[i * n + j];
      if (i >= j && most == most && !(size <= most)) most = size, best = i;
    }
    if (best != j) {
      for (i64 k = 0; k < n; ++k) {
        const T other = out[j * n + k];
        out[j * n + k] = out[best * n + k];
        out[best * n + k] = other;
      }
      const i64 row = rows[j];
      rows[j] = rows[best];
      rows[best] = row;
      *sign = -*sign;
    }
    const T pivot = out[j * n + j];
    if (pivot == 0) {
      if (info == 0) info = i32(j + 1);
      continue;
    }
    for (i64 i = j + 1; i < n; ++i) out[i * n + j] /= pivot;
  }
  return info;
}

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
