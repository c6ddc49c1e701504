// What the kernels of linalg.h on simt and cuda share.
#pragma once
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
// After simt.h, which the headers above include: the textbook's loops then are this device's.
#include "warptape/kernels/common/decompositions.h"
#include "warptape/kernels/common/matrix_batch.h"
#include "warptape/kernels/linalg.h"

namespace wt {
inline namespace WT_DEVICE_NS {

constexpr int kMatrixThreads = 32;  // of a block in which every thread has a matrix

template <class F>
void with_matrix_type(DType t, F f) {
  if (t == DType::f32)
    f(TypeTag<float>{});
  else
    f(TypeTag<double>{});
}
inline const char* why_not_matrix_type(DType t) {
  return t == DType::f32 || t == DType::f64 ? nullptr : "takes f32 and f64 only";
}

// Threads of a kernel in which a matrix has one, and `work` doubles of memory beside it: as many as
// there are matrices, or what 256 MiB are enough for. Each then takes several, one after the other.
inline i64 matrix_threads(i64 matrices, i64 work) {
  const i64 most = (i64{256} << 20) / (work * i64(sizeof(double)) + 1) + 1;
  return matrices < most ? matrices : most;
}

// `rank` of a kernel with a block a matrix, which is below the plainest one's where the matrices
// are many and so small that most of a block would look on.
inline int rank_of_block(const View& in, int rank) {
  const MatrixBatch m(in);
  const i64 side = m.rows < m.columns ? m.columns : m.rows;
  return side <= 8 && m.count >= 2048 ? 5 : rank;
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
