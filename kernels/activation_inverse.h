// What activations were applied to, told from their results (SavePolicy::invert).
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

enum class InvertedActivation : u8 { silu, gelu, gelu_tanh, mish };

// Where they have their minimum. From the definitions with 40 digits, as what follows from it in
// activation_inverse_math.h.
constexpr double turning_point(InvertedActivation f) {
  switch (f) {
    case InvertedActivation::silu:
      return -1.27846454276107379511;
    case InvertedActivation::gelu:
      return -0.751791524693564457458;
    case InvertedActivation::gelu_tanh:
      return -0.752461422071016258488;
    case InvertedActivation::mish:
      return -1.19243121451549521214;
  }
  return 0;
}

// x of y = f(x). f falls up to one place and rises from there on: a bit of `bits`, as bit_pack
// writes them for f's turning point, says on which side x was. It comes back within some units in
// its last place but near that point, where f is flat: there y tells x to half its digits only
// (activation_inverse_math.h says what that does to gradients). Of a y that has underflowed to 0
// x is somewhere beyond where f does. NaN and +inf are what they were.
// x, y: f64 f32 f16 bf16, one dtype, without gaps, in one order of memory; x may be y. bits: u8
// [ceil(n / 8)], contiguous.
struct ActivationInverseArgs {
  View x, y, bits;
  InvertedActivation f;
  i64 bytes() const { return x.bytes() + y.bytes() + bits.bytes(); }
  i64 flops() const { return 200 * x.numel(); }  // some six evaluations of f and its slope
};
WT_CONTRACT(activation_inverse, ActivationInverseArgs);

}  // namespace wt
