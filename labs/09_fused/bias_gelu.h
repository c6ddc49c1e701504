// The contracts of lab 9: bias and GELU behind a linear layer, written over the product, and their
// gradient, written over the incoming one.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// gelu(z) = z (1 + erf(z / sqrt(2))) / 2 falls up to here and rises from here on.
inline constexpr float kGeluTurn = -0.751791524693564457f;

// z = x + bias in f32, of rows [rows, columns]; x becomes gelu(z). Bit i % 8 of bits[i / 8] says
// whether z of element i, counted in C order, is above kGeluTurn; bits behind the last element are
// 0. x: f32, contiguous, read and written. bias: f32 [columns]. bits: u8 [ceil(elements / 8)].
struct BiasGeluArgs {
  View x, bits;
  View bias;
  i64 bytes() const { return 2 * x.bytes() + bits.bytes() + bias.bytes(); }
  i64 flops() const { return 8 * x.numel(); }
};
WT_CONTRACT(bias_gelu, BiasGeluArgs);

// g becomes g * gelu'(z), where y = gelu(z) and z's bit are what is left of z. With u = 2^-24 the
// slope may be off by 8 u / |gelu'(z)|, and near the turn, where y tells z to half its digits only,
// by 2 sqrt(u). g, y: f32 [rows, columns], contiguous; bits as above.
struct BiasGeluBackwardArgs {
  View g;
  View y, bits;
  i64 bytes() const { return 2 * g.bytes() + y.bytes() + bits.bytes(); }
  i64 flops() const { return 300 * g.numel(); }
};
WT_CONTRACT(bias_gelu_backward, BiasGeluBackwardArgs);

}  // namespace wt
