// Activations that an operator applies on the way: those that products have in their epilogue.
#pragma once
#include "warptape/core/types.h"

namespace wt {

// gelu is exact (erf), gelu_tanh Hendrycks and Gimpel's formula, as the operators of these names.
enum class Activation : u8 { none, relu, gelu, gelu_tanh, silu };

}  // namespace wt
