// Inverse activations on several threads (pointwise/activation_inverse_cpu.cpp).
#pragma once
#include "warptape/kernels/activation_inverse.h"

namespace wt {

// Elements [from, to): the reference's loop (activation_inverse.cpp).
void activation_inverse_part(const ActivationInverseArgs& a, i64 from, i64 to);
void activation_inverse_threaded(const ActivationInverseArgs& a, const Launch& l);

}  // namespace wt
