// Activations that are made of other operators; those with kernels of their own are in pointwise.h.
// Names, defaults and the gradients at the bends are PyTorch's (torch.nn.functional). x is floating
// (DtypeError), of any shape and strides.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// a sigmoid(b), a and b the halves of an axis (Dauphin et al. 2016, arXiv:1612.08083). Throws
// ShapeError for an axis of odd size and for one that is not there.
WT_API Tensor glu(const In& x, i64 axis = -1);
// min(max(x, min_val), max_val), whose gradient is 0 at both bounds. Throws UsageError unless
// min_val < max_val.
WT_API Tensor hardtanh(const In& x, double min_val = -1, double max_val = 1);
// 1.0507 elu(x, 1.67326), with more digits (Klambauer et al. 2017, arXiv:1706.02515).
WT_API Tensor selu(const In& x);
// x where x > 0, else alpha (e^(x / alpha) - 1) (Barron 2017, arXiv:1704.07483). Throws UsageError
// for alpha 0.
WT_API Tensor celu(const In& x, double alpha = 1);
// x where x > 0, else weight x: of one number, or of one a channel of [N, C, d...] (He et al. 2015,
// arXiv:1502.01852). Throws ShapeError when weight [n] fits neither.
WT_API Tensor prelu(const In& x, const In& weight);
// log(sigmoid(x)) = -softplus(-x), which does not overflow.
WT_API Tensor logsigmoid(const In& x);
// x - tanh(x).
WT_API Tensor tanhshrink(const In& x);
// x nearer to 0 by lambda, 0 where |x| <= lambda. Throws UsageError unless lambda >= 0.
WT_API Tensor softshrink(const In& x, double lambda = 0.5);
// 0 where |x| <= lambda, else x.
WT_API Tensor hardshrink(const In& x, double lambda = 0.5);
// x where x > threshold or NaN, else value.
WT_API Tensor threshold(const In& x, double threshold, double value);

}  // namespace wt
