// Linear layers with what comes behind them, in one kernel.
#pragma once
#include "warptape/core/activation.h"
#include "warptape/core/in.h"

namespace wt {

struct FusedLinearOptions {
  Tensor bias{};      // [out]
  Tensor residual{};  // the result's shape
  Activation activation = Activation::none;
};
// y = f(x w^T + bias + residual): x [.., in], w [out, in], y [.., out], f the activation. What is
// added is undefined where there is none. One dtype, f64 f32 f16 bf16 (16 bits are summed in f32).
// The values are those of linear, add and the activation, but for roundings between them: on simt
// and cuda our own kernels make all of it before they write. relu and relu6 save y for their
// gradient, the others x w^T + bias + residual. Throws ShapeError and DtypeError.
WT_API Tensor fused_linear(const In& x, const In& w, const FusedLinearOptions& options = {});

struct FeedForwardOptions {
  Tensor bias1{}, bias2{};  // [hidden], [out]
  Tensor residual{};        // the result's shape
  Activation activation = Activation::relu;
};
// A transformer's feed-forward block, y = f(x w1^T + bias1) w2^T + bias2 + residual: x [.., in], w1
// [hidden, in], w2 [out, hidden], y [.., out] (Vaswani et al. 2017, arXiv:1706.03762, section 3.3).
// Two kernels forward; backward the activation's gradient is made where dy w2 is, and never stored
// without it. Dtypes and errors as fused_linear's.
WT_API Tensor feed_forward(const In& x, const In& w1, const In& w2,
                           const FeedForwardOptions& options = {});

}  // namespace wt
