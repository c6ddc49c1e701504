// Activations as modules: names and defaults are PyTorch's.
#pragma once
#include "warptape/nn/module.h"

namespace wt::nn {

// How GELU is computed: exactly, by erf, or by tanh (Hendrycks and Gimpel 2016, arXiv:1606.08415).
enum class Approximate : u8 { none, tanh };

// max(x, 0).
struct ReLU : Module<ReLU> {
  WT_API Tensor forward(Tensor x);
};
// min(max(x, 0), 6), whose gradient is 0 at both bounds.
struct ReLU6 : Module<ReLU6> {
  WT_API Tensor forward(Tensor x);
};
// x between low and high, the nearer of them elsewhere; the gradient at them is 0. Throws
// UsageError unless low < high.
struct Hardtanh : Module<Hardtanh> {
  WT_API explicit Hardtanh(double low = -1, double high = 1, const CallLine& = {});
  WT_API Tensor forward(Tensor x);

 private:
  double low_, high_;
};
// x where x > 0, else slope x.
struct LeakyReLU : Module<LeakyReLU> {
  WT_API explicit LeakyReLU(double slope = 0.01);
  WT_API Tensor forward(Tensor x);

 private:
  double slope_;
};
// x where x > 0, else a x, with a drawn from U[lower, upper) for every element in training and
// their mean in evaluation (Xu et al. 2015, arXiv:1505.00853). Draws come from the generator's user
// stream. Throws UsageError unless lower <= upper.
struct RReLU : Module<RReLU> {
  WT_API explicit RReLU(double lower = 1.0 / 8, double upper = 1.0 / 3, const CallLine& = {});
  WT_API Tensor forward(Tensor x);

 private:
  double lower_, upper_;
};
// x where x > 0, else alpha (e^x - 1).
struct ELU : Module<ELU> {
  WT_API explicit ELU(double alpha = 1);
  WT_API Tensor forward(Tensor x);

 private:
  double alpha_;
};
// x where x > 0, else alpha (e^(x / alpha) - 1) (Barron 2017, arXiv:1704.07483). Throws UsageError
// for alpha 0.
struct CELU : Module<CELU> {
  WT_API explicit CELU(double alpha = 1, const CallLine& = {});
  WT_API Tensor forward(Tensor x);

 private:
  double alpha_;
};
// 1.0507 elu(x, 1.67326), with more digits (Klambauer et al. 2017, arXiv:1706.02515).
struct SELU : Module<SELU> {
  WT_API Tensor forward(Tensor x);
};
// x Phi(x), or its form with tanh.
struct GELU : Module<GELU> {
  WT_API explicit GELU(Approximate approximate = Approximate::none);
  WT_API Tensor forward(Tensor x);

 private:
  Approximate approximate_;
};
// x sigmoid(x).
struct SiLU : Module<SiLU> {
  WT_API Tensor forward(Tensor x);
};
// x tanh(softplus(x)).
struct Mish : Module<Mish> {
  WT_API Tensor forward(Tensor x);
};
// log(1 + e^(beta x)) / beta; x itself where beta x > threshold. Throws UsageError unless beta > 0.
struct Softplus : Module<Softplus> {
  WT_API explicit Softplus(double beta = 1, double threshold = 20, const CallLine& = {});
  WT_API Tensor forward(Tensor x);

 private:
  double beta_, threshold_;
};
// x clamp(x + 3, 0, 6) / 6.
struct Hardswish : Module<Hardswish> {
  WT_API Tensor forward(Tensor x);
};
// clamp(x + 3, 0, 6) / 6.
struct Hardsigmoid : Module<Hardsigmoid> {
  WT_API Tensor forward(Tensor x);
};
// 1 / (1 + e^-x).
struct Sigmoid : Module<Sigmoid> {
  WT_API Tensor forward(Tensor x);
};
// The hyperbolic tangent.
struct Tanh : Module<Tanh> {
  WT_API Tensor forward(Tensor x);
};
// log(sigmoid(x)), which does not overflow.
struct LogSigmoid : Module<LogSigmoid> {
  WT_API Tensor forward(Tensor x);
};
// x / (1 + |x|).
struct Softsign : Module<Softsign> {
  WT_API Tensor forward(Tensor x);
};
// x - tanh(x).
struct Tanhshrink : Module<Tanhshrink> {
  WT_API Tensor forward(Tensor x);
};
// 0 where |x| <= lambda, else x.
struct Hardshrink : Module<Hardshrink> {
  WT_API explicit Hardshrink(double lambda = 0.5);
  WT_API Tensor forward(Tensor x);

 private:
  double lambda_;
};
// x nearer to 0 by lambda, 0 where |x| <= lambda. Throws UsageError unless lambda >= 0.
struct Softshrink : Module<Softshrink> {
  WT_API explicit Softshrink(double lambda = 0.5, const CallLine& = {});
  WT_API Tensor forward(Tensor x);

 private:
  double lambda_;
};
// x where x > threshold, else value.
struct Threshold : Module<Threshold> {
  WT_API Threshold(double threshold, double value);
  WT_API Tensor forward(Tensor x);

 private:
  double threshold_, value_;
};
// a sigmoid(b), a and b the halves of an axis (Dauphin et al. 2016, arXiv:1612.08083). Throws
// ShapeError for an axis of odd size.
struct GLU : Module<GLU> {
  WT_API explicit GLU(i64 axis = -1);
  WT_API Tensor forward(Tensor x);

 private:
  i64 axis_;
};
// e^x / sum(e^x) along an axis.
struct Softmax : Module<Softmax> {
  WT_API explicit Softmax(i64 axis);
  WT_API Tensor forward(Tensor x);

 private:
  i64 axis_;
};
// log(softmax(x)) along an axis.
struct LogSoftmax : Module<LogSoftmax> {
  WT_API explicit LogSoftmax(i64 axis);
  WT_API Tensor forward(Tensor x);

 private:
  i64 axis_;
};
// softmax(-x) along an axis.
struct Softmin : Module<Softmin> {
  WT_API explicit Softmin(i64 axis);
  WT_API Tensor forward(Tensor x);

 private:
  i64 axis_;
};
// softmax over the channels of [N, C, H, W] or [C, H, W]. Throws ShapeError for other ranks.
struct Softmax2d : Module<Softmax2d> {
  WT_API Tensor forward(Tensor x);
};

struct PReLUOptions {
  i64 num_parameters = 1;  // or the channels of x
  double init = 0.25;
  DType dtype = DType::f32;
};
// x where x > 0, else a x, a being learned: one number, or one a channel of [N, C, d...] (He et al.
// 2015, arXiv:1502.01852). weight [num_parameters] holds a. Throws ShapeError when x has another
// number of channels.
class WT_API PReLU : public Module<PReLU> {
 public:
  explicit PReLU(const PReLUOptions& o = {}, const CallLine& = {});
  Tensor forward(Tensor x);
  Param weight;
};

}  // namespace wt::nn
