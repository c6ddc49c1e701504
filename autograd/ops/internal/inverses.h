// Which elementwise entries are inverted, and how (SavePolicy::invert). Internal.
#pragma once
#include "warptape/autograd/op_saving.h"
#include "warptape/kernels/activation_inverse.h"
#include "warptape/kernels/pointwise.h"

namespace wt::elementwise {

// In save_invert.cpp.
Tensor inverse_activation(InvertedActivation f, const Tensor& y, const Tensor& bits);

template <InvertedActivation f>
Tensor inverse_of(const Tensor& y, const Tensor& bits) {
  return inverse_activation(f, y, bits);
}
template <InvertedActivation f>
inline constexpr Inverse kTurningInverse{turning_point(f), inverse_of<f>};

template <class F>
constexpr const Inverse* find_inverse() {
  if constexpr (std::is_same_v<F, pw::Silu>)
    return &kTurningInverse<InvertedActivation::silu>;
  else if constexpr (std::is_same_v<F, pw::Gelu>)
    return &kTurningInverse<InvertedActivation::gelu>;
  else if constexpr (std::is_same_v<F, pw::GeluTanh>)
    return &kTurningInverse<InvertedActivation::gelu_tanh>;
  else if constexpr (std::is_same_v<F, pw::Mish>)
    return &kTurningInverse<InvertedActivation::mish>;
  else
    return nullptr;
}

}  // namespace wt::elementwise
