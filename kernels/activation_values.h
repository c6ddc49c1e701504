// Activations behind another kernel's results (core/activation.h), and their gradients, of an
// element that a loop on the cpu has at hand. device/epilogue.cuh has those of the other devices.
#pragma once
#include "warptape/core/activation.h"
#include "warptape/kernels/pointwise_activations.h"

namespace wt {

// f(z).
template <class A>
WT_HOT A activated(Activation f, A z) {
  switch (f) {
    case Activation::none:
      return z;
    case Activation::relu:
      return pw::Relu::value(z);
    case Activation::gelu:
      return pw::Gelu::value(z);
    case Activation::gelu_tanh:
      return pw::GeluTanh::value(z);
    case Activation::silu:
      return pw::Silu::value(z);
    case Activation::relu6:
      return pw::Relu6::value(z);
    case Activation::hardswish:
      return pw::Hardswish::value(z);
  }
  return z;
}
// gy * f'(z).
template <class A>
WT_HOT A activation_gradient(Activation f, A gy, A z) {
  switch (f) {
    case Activation::none:
      return gy;
    case Activation::relu:
      return pw::Relu::d0(gy, z, z);
    case Activation::gelu:
      return pw::Gelu::d0(gy, z, z);
    case Activation::gelu_tanh:
      return pw::GeluTanh::d0(gy, z, z);
    case Activation::silu:
      return pw::Silu::d0(gy, z, z);
    case Activation::relu6:
      return pw::Relu6::d0(gy, z, z);
    case Activation::hardswish:
      return pw::Hardswish::d0(gy, z, z);
  }
  return gy;
}

}  // namespace wt
