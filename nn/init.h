// Initialisers: fill a tensor from the generator's init stream, with the same bits on every
// device. They are not recorded. Names and defaults are PyTorch's torch.nn.init; layers begin as
// PyTorch's do.
#pragma once
#include <optional>

#include "warptape/core/tensor.h"

namespace wt::nn::init {

// Draws from U[low, high).
WT_API void uniform_(const Tensor& t, double low = 0, double high = 1);
// Draws from N(mean, std^2).
WT_API void normal_(const Tensor& t, double mean = 0, double std = 1);
// Draws from the part of N(mean, std^2) that lies in [low, high] (the bounds are values, not
// multiples of std). Throws UsageError unless low < high and std > 0.
WT_API void trunc_normal_(const Tensor& t, double mean = 0, double std = 1, double low = -2,
                          double high = 2);
// Every element becomes `value`, in the tensor's dtype.
WT_API void constant_(const Tensor& t, double value);
// Every element becomes 1.
WT_API void ones_(const Tensor& t);
// Every element becomes 0.
WT_API void zeros_(const Tensor& t);
// Ones on the diagonal of a matrix, zeros elsewhere. Throws ShapeError for another rank.
WT_API void eye_(const Tensor& t);
// Weights [out, in / groups, kernel...] of a convolution that passes its first channels on as they
// are: ones in the kernel's middle, zeros elsewhere. With fewer channels in than out, the rest
// gives zeros. Throws ShapeError unless there are 3 to 5 axes and groups divides the first.
WT_API void dirac_(const Tensor& t, i64 groups = 1);

// What follows a layer, for calculate_gain(): the activation, or linear and conv for none.
enum class Nonlinearity : u8 { linear, conv, sigmoid, tanh, relu, leaky_relu, selu };
// The factor that keeps the variance: linear, conv and sigmoid 1, tanh 5/3, relu sqrt(2),
// leaky_relu sqrt(2 / (1 + slope^2)), selu 3/4.
WT_API double calculate_gain(Nonlinearity f, double slope = 0.01);

// How many numbers an element of the result is made of, and how many it takes part in.
struct Fans {
  i64 in, out;  // of a weight [out, in, kernel...]: each times the elements of the kernel
};
// The fans of a weight [out, in, kernel...]: in and out, each times the elements of the kernel.
// Throws ShapeError for fewer than two axes.
WT_API Fans fans_of(const Tensor& t);

// Draws from U[-b, b) with b = gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010). Throws
// ShapeError for fewer than two axes.
WT_API void xavier_uniform_(const Tensor& t, double gain = 1);
// Draws from N(0, s^2) with s = gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010). Throws
// ShapeError for fewer than two axes.
WT_API void xavier_normal_(const Tensor& t, double gain = 1);

// Which fan keeps its variance: fan_in that of the forward, fan_out that of the backward.
enum class FanMode : u8 { fan_in, fan_out };
// Of kaiming_uniform_() and kaiming_normal_(): by default a gain of sqrt(2) and the fan in.
struct KaimingOptions {
  double a = 0;                                          // the slope of leaky_relu
  FanMode mode = FanMode::fan_in;                        // the fan that is divided by
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;  // whose calculate_gain() is taken
};
// Draws from U[-b, b) with b = gain sqrt(3 / fan) (He et al. 2015, arXiv:1502.01852). Throws
// ShapeError for fewer than two axes.
WT_API void kaiming_uniform_(const Tensor& t, const KaimingOptions& options = {});
// Draws from N(0, gain^2 / fan) (He et al. 2015, arXiv:1502.01852). Throws ShapeError for fewer
// than two axes.
WT_API void kaiming_normal_(const Tensor& t, const KaimingOptions& options = {});

// Draws gain times a matrix [n, the other axes flattened] whose rows (columns, where there are
// fewer) are orthonormal, evenly distributed among those (Saxe et al. 2013, arXiv:1312.6120). Made
// on the host in f64 and copied to t's device: 4 n^2 m operations, n the fewer. Throws ShapeError
// for fewer than two axes.
WT_API void orthogonal_(const Tensor& t, double gain = 1);

}  // namespace wt::nn::init
