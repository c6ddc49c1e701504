// Activations of eight floats, for vector variants.
#pragma once
#include "warptape/core/activation.h"

namespace wt {

// Smooth ones only: z becomes f(z), and gy becomes gy * f'(z).
void activate_eight(Activation f, float* z);
void activation_gradient_eight(Activation f, float* gy, const float* z);

}  // namespace wt
