// Smooth activations of eight floats, which become vector code here: CMakeLists.txt gives this file
// the options of elementwise operators, whose values these are.
#include "warptape/kernels/norm/activation_eight_cpu.h"

#include "warptape/kernels/activation_values.h"
#include "warptape/kernels/cpu/isa.h"

namespace wt {
namespace {

template <class F>
WT_TARGET_AVX2 void values_of_eight(float* z) {
  for (int k = 0; k < 8; ++k) z[k] = F::value(z[k]);
}
template <class F>
WT_TARGET_AVX2 void gradients_of_eight(float* gy, const float* z) {
  float g[8];  // apart from z, as far as the compiler can see
  for (int k = 0; k < 8; ++k) g[k] = F::d0(gy[k], z[k], z[k]);
  for (int k = 0; k < 8; ++k) gy[k] = g[k];
}

}  // namespace

void activate_eight(Activation f, float* z) {
  if (f == Activation::gelu)
    values_of_eight<pw::Gelu>(z);
  else if (f == Activation::gelu_tanh)
    values_of_eight<pw::GeluTanh>(z);
  else if (f == Activation::hardswish)
    values_of_eight<pw::Hardswish>(z);
  else
    values_of_eight<pw::Silu>(z);
}
void activation_gradient_eight(Activation f, float* gy, const float* z) {
  if (f == Activation::gelu)
    gradients_of_eight<pw::Gelu>(gy, z);
  else if (f == Activation::gelu_tanh)
    gradients_of_eight<pw::GeluTanh>(gy, z);
  else if (f == Activation::hardswish)
    gradients_of_eight<pw::Hardswish>(gy, z);
  else
    gradients_of_eight<pw::Silu>(gy, z);
}

}  // namespace wt
