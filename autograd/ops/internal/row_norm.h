// What operators that normalise rows share. Internal to ops/norm.cpp and ops/add_norm.cpp.
#pragma once
#include <optional>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/mode.h"

namespace wt {

// A call, as a node keeps it.
struct RowNorm {
  int axes;  // the last ones, which are normalised
  double eps;
  bool centred;               // layer norm; else the root mean square norm
  i8 weight = -1, bias = -1;  // their operands; -1: none
};

// A tensor as rows: its last `axes` axes are one. Where they do not lie evenly, or are no
// neighbours and must be, it is copied. Lives as long as the view is used.
class RowsOf {
 public:
  RowsOf(const TensorImpl* p, int axes, bool neighbours = false) : impl_(p) {
    if ((!neighbours || p->geometry.dense) && merge(axes)) return;
    const NoGrad no_grad;
    copy_ = contiguous(Tensor(detail::retained(const_cast<TensorImpl*>(p))));
    impl_ = copy_.impl();
    merge(axes);
  }
  RowsOf(const RowsOf&) = delete;
  RowsOf& operator=(const RowsOf&) = delete;
  View view() const { return {impl_->data, &rows_}; }

 private:
  bool merge(int axes) {
    const Geometry& g = impl_->geometry;
    const int lead = g.ndim - axes;
    i64 length = 1, step = 1;
    for (int d = g.ndim; d-- > lead;) {
      if (g.shape[d] == 1) continue;
      if (length == 1)
        step = g.strides[d];
      else if (g.numel > 0 && g.strides[d] != length * step)  // without elements: any strides
        return false;
      length *= g.shape[d];
    }
    rows_ = g;
    rows_.ndim = u8(lead + 1);
    rows_.shape[lead] = length;
    rows_.strides[lead] = step;
    finish_geometry(rows_);
    return true;
  }
  const TensorImpl* impl_;
  Tensor copy_;
  Geometry rows_;
};

// Shape of the parameters, and eps. x is operand 0.
void check_row_norm(const OpScope& s, const RowNorm& norm, const Shape& normalized);

// Without a given one: the machine epsilon of what x's dtype computes in.
double rms_eps(const OpScope& s, const std::optional<double>& given);

// Room for what a backward reads of every row of x, its mean (0 for rms_norm) and rstd.
Tensor new_row_stats(const OpScope& s, const View& rows);

// --- backward ---

// Gradients of weight and bias, where they are wanted, by a kernel. x: what was normalised.
void put_row_norm_parameters(Backward& g, const RowNorm& norm, const View& gy, const View& x,
                             const View& stats);

// The same gradients from operators that record, in the dtype that the kernels compute in: those of
// weight and bias are put, that of x, what was normalised, is returned where `wants_x`. `weight`:
// undefined for none.
Tensor recorded_row_norm(Backward& g, const RowNorm& norm, const Tensor& x, const Tensor& weight,
                         bool wants_x);

}  // namespace wt
