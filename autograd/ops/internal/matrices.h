// What operators that take matrices apart ask of their operands, and of their kernels. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/slices.h"

namespace wt {

// Throws unless the operand has matrices, which are square or need not be, of f32 or f64.
WT_COLD inline void require_matrices(const OpScope& s, int operand, const char* name, bool square) {
  const Geometry& g = s.geometry(operand);
  if (g.ndim < 2)
    s.fail<ShapeError>(str(name, " must have at least 2 dimensions, got shape ", shape_of(g)));
  if (square && g.shape[g.ndim - 2] != g.shape[g.ndim - 1])
    s.fail<ShapeError>(str(name, " must be square, got ", g.shape[g.ndim - 2], " rows and ",
                           g.shape[g.ndim - 1], " columns"));
  if (s.dtype(operand) != DType::f32 && s.dtype(operand) != DType::f64)
    s.fail<DtypeError>(str(name, " must be f32 or f64, got ", dtype_name(s.dtype(operand))),
                       ".to(f32)");
}

// Operand i with dense matrices, broadcast to the batch.
inline Tensor dense_matrices(const OpScope& s, int i, const Shape& shape) {
  const NoGrad no_grad;
  return contiguous(expand(Tensor(detail::retained(s.impl(i))), shape));
}
inline Tensor dense_matrices(const OpScope& s) {
  return dense_matrices(s, 0, shape_of(s.geometry(0)));
}

inline Tensor transposed(const Tensor& t) { return transpose(t, -2, -1); }
// What counts the matrices.
inline Shape batch_of(const Geometry& g) { return Shape(g.shape, g.ndim - 2); }
// "" or " 3", which matrix of a batch it is.
inline std::string which_matrix(const OpScope& s, i64 matrix) {
  return s.geometry(0).ndim > 2 ? str(" ", matrix) : "";
}

// What the kernel finds out about each matrix, beside the matrices.
inline Tensor new_info(const OpScope& s) {
  const Shape batch = batch_of(s.geometry(0));
  return Tensor(new_contiguous(batch.data(), batch.ndim(), DType::i32, s.device()));
}
struct MatrixFailure {
  i64 matrix = -1;  // the first one that could not be taken apart; -1: none
  i64 info = 0;
};
// Waits for the device: an error names the line that called the operator, and nobody goes on with
// a factor that is none.
inline MatrixFailure failure_of(const OpScope& s, const Tensor& info) {
  // No kernel writes where there is nothing to take apart.
  if (s.device().is_meta || s.geometry(0).numel == 0) return {};
  const NoGrad no_grad;
  const std::vector<i32> found = detail::EverySlice(info).values().to_vector<i32>();
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] != 0) return {i64(i), found[i]};
  return {};
}

}  // namespace wt
