// Activations as modules: names and defaults are PyTorch's.
#pragma once
#include "warptape/nn/module.h"

namespace wt::nn {

// How GELU is computed: none: exactly, by erf; tanh: by that function (Hendrycks and Gimpel 2016,
// arXiv:1606.08415).
enum class Approximate : u8 { none, tanh };

// max(x, 0).
struct ReLU : Module<ReLU> {
  // Elementwise, in x's shape; integers stay integers.
  WT_API Tensor forward(Tensor x);
};
// min(max(x, 0), 6), whose gradient is 0 at both bounds.
struct ReLU6 : Module<ReLU6> {
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);
};
// x between low and high, the nearer of them elsewhere; the gradient at them is 0. Throws
// UsageError unless low < high.
struct Hardtanh : Module<Hardtanh> {
  // low and high are the smallest and the largest result.
  WT_API explicit Hardtanh(double low = -1, double high = 1, const CallLine& = {});
  // Elementwise, in x's shape and dtype. Throws DtypeError unless x is floating.
  WT_API Tensor forward(Tensor x);

 private:
  double low_, high_;
};
// x where x > 0, else slope x.
struct LeakyReLU : Module<LeakyReLU> {
  // slope is what negative x are multiplied by.
  WT_API explicit LeakyReLU(double slope = 0.01);
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);

 private:
  double slope_;
};
// x where x > 0, else a x, with a drawn from U[lower, upper) for every element in training and
// their mean in evaluation (Xu et al. 2015, arXiv:1505.00853). Draws come from the generator's user
// stream. Throws UsageError unless lower <= upper.
struct RReLU : Module<RReLU> {
  // lower and upper bound the slopes that are drawn.
  WT_API explicit RReLU(double lower = 1.0 / 8, double upper = 1.0 / 3, const CallLine& = {});
  // Elementwise, in x's shape and dtype; a new draw for each call. Throws DtypeError in training
  // unless x is floating.
  WT_API Tensor forward(Tensor x);

 private:
  double lower_, upper_;
};
// x where x > 0, else alpha (e^x - 1).
struct ELU : Module<ELU> {
  // -alpha is what x far below 0 come to.
  WT_API explicit ELU(double alpha = 1);
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);

 private:
  double alpha_;
};
// x where x > 0, else alpha (e^(x / alpha) - 1) (Barron 2017, arXiv:1704.07483). Throws UsageError
// for alpha 0.
struct CELU : Module<CELU> {
  // -alpha is what x far below 0 come to; the derivative at 0 is 1 for every alpha.
  WT_API explicit CELU(double alpha = 1, const CallLine& = {});
  // Elementwise, in x's shape and dtype. Throws DtypeError unless x is floating.
  WT_API Tensor forward(Tensor x);

 private:
  double alpha_;
};
// 1.0507 elu(x, 1.67326), with more digits (Klambauer et al. 2017, arXiv:1706.02515).
struct SELU : Module<SELU> {
  // Elementwise, in x's shape and dtype. Throws DtypeError unless x is floating.
  WT_API Tensor forward(Tensor x);
};
// x Phi(x), or its form with tanh.
struct GELU : Module<GELU> {
  // Exact unless Approximate::tanh is given.
  WT_API explicit GELU(Approximate approximate = Approximate::none);
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);

 private:
  Approximate approximate_;
};
// x sigmoid(x).
struct SiLU : Module<SiLU> {
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);
};
// x tanh(softplus(x)).
struct Mish : Module<Mish> {
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);
};
// log(1 + e^(beta x)) / beta; x itself where beta x > threshold. Throws UsageError unless beta > 0.
struct Softplus : Module<Softplus> {
  // beta is how sharp the bend at 0 is, threshold where the result becomes x itself.
  WT_API explicit Softplus(double beta = 1, double threshold = 20, const CallLine& = {});
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);

 private:
  double beta_, threshold_;
};
// x clamp(x + 3, 0, 6) / 6.
struct Hardswish : Module<Hardswish> {
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);
};
// clamp(x + 3, 0, 6) / 6.
struct Hardsigmoid : Module<Hardsigmoid> {
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);
};
// 1 / (1 + e^-x).
struct Sigmoid : Module<Sigmoid> {
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);
};
// The hyperbolic tangent.
struct Tanh : Module<Tanh> {
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);
};
// log(sigmoid(x)), which does not overflow.
struct LogSigmoid : Module<LogSigmoid> {
  // Elementwise, in x's shape and dtype. Throws DtypeError unless x is floating.
  WT_API Tensor forward(Tensor x);
};
// x / (1 + |x|).
struct Softsign : Module<Softsign> {
  // Elementwise, in x's shape; integers give the default dtype.
  WT_API Tensor forward(Tensor x);
};
// x - tanh(x).
struct Tanhshrink : Module<Tanhshrink> {
  // Elementwise, in x's shape and dtype. Throws DtypeError unless x is floating.
  WT_API Tensor forward(Tensor x);
};
// 0 where |x| <= lambda, else x.
struct Hardshrink : Module<Hardshrink> {
  // lambda is half the width of what becomes 0.
  WT_API explicit Hardshrink(double lambda = 0.5);
  // Elementwise, in x's shape and dtype. Throws DtypeError unless x is floating.
  WT_API Tensor forward(Tensor x);

 private:
  double lambda_;
};
// x nearer to 0 by lambda, 0 where |x| <= lambda. Throws UsageError unless lambda >= 0.
struct Softshrink : Module<Softshrink> {
  // lambda is half the width of what becomes 0, and how far all else moves.
  WT_API explicit Softshrink(double lambda = 0.5, const CallLine& = {});
  // Elementwise, in x's shape and dtype. Throws DtypeError unless x is floating.
  WT_API Tensor forward(Tensor x);

 private:
  double lambda_;
};
// x where x > threshold or NaN, else value.
struct Threshold : Module<Threshold> {
  // Both as doubles; value takes the dtype of x.
  WT_API Threshold(double threshold, double value);
  // Elementwise, in x's shape and dtype. Throws DtypeError unless x is floating.
  WT_API Tensor forward(Tensor x);

 private:
  double threshold_, value_;
};
// a sigmoid(b), a and b the halves of an axis (Dauphin et al. 2016, arXiv:1612.08083). Throws
// ShapeError for an axis of odd size.
struct GLU : Module<GLU> {
  // The axis that is halved; negative counts from the end.
  WT_API explicit GLU(i64 axis = -1);
  // [.., 2 K, ..] to [.., K, ..] along the axis. Throws DtypeError unless x is floating, ShapeError
  // for an axis that is not there.
  WT_API Tensor forward(Tensor x);

 private:
  i64 axis_;
};
// e^x / sum(e^x) along an axis.
struct Softmax : Module<Softmax> {
  // The axis whose sums are 1; negative counts from the end.
  WT_API explicit Softmax(i64 axis);
  // In x's shape and dtype. Throws DtypeError unless x is floating, ShapeError for an axis that is
  // not there.
  WT_API Tensor forward(Tensor x);

 private:
  i64 axis_;
};
// log(softmax(x)) along an axis.
struct LogSoftmax : Module<LogSoftmax> {
  // The axis along which probabilities add up to 1; negative counts from the end.
  WT_API explicit LogSoftmax(i64 axis);
  // In x's shape and dtype. Throws DtypeError unless x is floating, ShapeError for an axis that is
  // not there.
  WT_API Tensor forward(Tensor x);

 private:
  i64 axis_;
};
// softmax(-x) along an axis.
struct Softmin : Module<Softmin> {
  // The axis whose sums are 1; negative counts from the end.
  WT_API explicit Softmin(i64 axis);
  // In x's shape and dtype. Throws DtypeError unless x is floating, ShapeError for an axis that is
  // not there.
  WT_API Tensor forward(Tensor x);

 private:
  i64 axis_;
};
// softmax over the channels of [N, C, H, W] or [C, H, W]. Throws ShapeError for other ranks.
struct Softmax2d : Module<Softmax2d> {
  // In x's shape and dtype. Throws DtypeError unless x is floating.
  WT_API Tensor forward(Tensor x);
};

// What a PReLU begins with.
struct PReLUOptions {
  i64 num_parameters = 1;    // or the channels of x
  double init = 0.25;        // of every slope
  DType dtype = DType::f32;  // of the weight
};
// x where x > 0, else a x, a being learned: one number, or one a channel of [N, C, d...] (He et al.
// 2015, arXiv:1502.01852). weight [num_parameters] holds a. Throws ShapeError when x has another
// number of channels.
class WT_API PReLU : public Module<PReLU> {
 public:
  // All slopes begin as o.init. Throws ShapeError for num_parameters below 1.
  explicit PReLU(const PReLUOptions& o = {}, const CallLine& = {});
  // Elementwise, in x's shape; channels are axis 1, of x with fewer than two axes one. Throws
  // DtypeError unless x is floating.
  Tensor forward(Tensor x);
  // [num_parameters], the slopes.
  Param weight;
};

}  // namespace wt::nn
