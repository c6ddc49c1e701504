// Tensors as the operands of a matrix product, whatever their strides. Internal.
#pragma once
#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/run.h"

namespace wt {

struct Matrix {
  const TensorImpl* tensor;
  i64 rows, columns, row, column;  // sizes and strides
};

// Strides of size-1 axes are made to fit. False when the kernels could not read it: no unit stride,
// or rows that overlap.
WT_HOT bool normalise(Matrix& m) {
  if (m.columns <= 1) {
    m.column = 1;
    if (m.rows <= 1) m.row = 1;
    return m.row >= 1;
  }
  if (m.rows <= 1) {
    m.row = m.column == 1 ? m.columns : 1;
    return m.column >= 1;
  }
  return (m.column == 1 && m.row >= m.columns) || (m.row == 1 && m.column >= m.rows);
}

WT_COLD inline Tensor contiguous_copy(const TensorImpl* p) {
  const NoGrad no_grad;
  return contiguous(Tensor(detail::retained(const_cast<TensorImpl*>(p))));
}

// The last two axes of p. A layout that kernels cannot read is copied into `copy`.
WT_HOT Matrix last_two(const TensorImpl* p, Tensor& copy) {
  const auto read = [](const TensorImpl* q) WT_INLINE_LAMBDA {
    const Geometry& g = q->geometry;
    const int r = g.ndim - 2, c = g.ndim - 1;
    return Matrix{q, g.shape[r], g.shape[c], g.strides[r], g.strides[c]};
  };
  Matrix m = read(p);
  if (!normalise(m)) [[unlikely]] {
    copy = contiguous_copy(p);
    m = read(copy.impl());
    normalise(m);
  }
  return m;
}

// All axes but the last merged into rows.
WT_HOT Matrix rows_of(const TensorImpl* p, Tensor& copy) {
  const auto read = [](const TensorImpl* q, Matrix& m) WT_INLINE_LAMBDA {
    const Geometry& g = q->geometry;
    const int c = g.ndim - 1;
    m = {q, 1, g.shape[c], g.shape[c], g.strides[c]};
    bool merges = true;
    for (int d = c; d-- > 0;) {
      if (g.shape[d] == 1) continue;
      if (m.rows == 1)
        m.row = g.strides[d];
      else
        merges &= g.strides[d] == m.rows * m.row;
      m.rows *= g.shape[d];
    }
    return normalise(m) && merges;
  };
  Matrix m;
  if (!read(p, m)) [[unlikely]] {
    copy = contiguous_copy(p);
    read(copy.impl(), m);
  }
  return m;
}

WT_HOT void set_matrices(MatmulArgs& g, const Matrix& a, bool ta, const Matrix& b, bool tb) {
  g.a = a.tensor->data;
  g.b = b.tensor->data;
  g.m = ta ? a.columns : a.rows;
  g.k = ta ? a.rows : a.columns;
  g.n = tb ? b.rows : b.columns;
  g.a_row = ta ? a.column : a.row;
  g.a_column = ta ? a.row : a.column;
  g.b_row = tb ? b.column : b.row;
  g.b_column = tb ? b.row : b.column;
  g.dtype = dtype_of(a.tensor);
}

// [.., c] as [rows, c].
inline Tensor flat_rows(const Tensor& x) {
  const i64 columns = x.size(-1);
  i64 rows = 1;
  for (int d = 0; d + 1 < x.ndim(); ++d) rows *= x.size(d);
  return reshape(x, {rows, columns});
}

// Hands over dw (+)= dy^T x, the gradient of input `weight`, and db (+)= the sum of dy's rows, of
// input `bias` unless that is below 0, in one launch. x has columns.
inline void put_weight_gradients(Backward& g, const OpInfo& op, const Tensor& of_y,
                                 const Tensor& of_x, int weight, int bias) {
  const In dy(of_y), x(of_x);
  const OpScope s(op, dy, x);
  Tensor copy_dy, copy_x;
  const Matrix a = rows_of(dy.impl(), copy_dy), b = rows_of(x.impl(), copy_x);
  MatmulArgs args;
  set_matrices(args, a, true, b, false);
  args.out_row = args.n > 1 ? args.n : 1;
  GradDestination dw = g.destination(u32(weight));
  GradDestination db = bias >= 0 ? g.destination(u32(bias)) : GradDestination();
  args.out = dw.impl()->data;
  args.accumulate = dw.accumulate();
  if (bias >= 0) {
    args.row_sum = db.impl()->data;
    args.row_sum_accumulate = db.accumulate();
  }
  run(args, s.launch());
  g.put(u32(weight), std::move(dw));
  if (bias >= 0) g.put(u32(bias), std::move(db));
}

}  // namespace wt
