// Activations that an operator applies on the way: those that products have in their epilogue.
#pragma once
#include "warptape/core/types.h"

namespace wt {

// gelu is exact (erf), gelu_tanh Hendrycks and Gimpel's formula, as the operators of these names.
enum class Activation : u8 { none, relu, gelu, gelu_tanh, silu, relu6, hardswish };
inline constexpr Activation kAllActivations[] = {
    Activation::none, Activation::relu,  Activation::gelu,     Activation::gelu_tanh,
    Activation::silu, Activation::relu6, Activation::hardswish};

// The derivative is told from the result; those of the others from what they were applied to. Told
// from that it is the same.
constexpr bool is_told_from_result(Activation f) {
  return f == Activation::relu || f == Activation::relu6;
}

}  // namespace wt
