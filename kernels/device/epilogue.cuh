// The activations of an epilogue, in registers: for kernels that make a product, of matrices or by
// convolution.
#pragma once
#define WT_FORMULAS_BY_LIBM 1  // before pointwise_math.h: an element at a time
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Sums that tensor cores or tiles leave in registers are scattered, so an epilogue, which reads and
// writes memory of its own, gets them by way of shared memory: a band of rows at a time, in the
// memory of the operands' tiles, read as packs of four neighbours.
constexpr int kStaged = 4;

// f(z), or z * f'(saved).
template <class F, class A>
__device__ __forceinline__ A activated_by(bool gradient, A z, A saved) {
  return gradient ? pw::Grad0<F>().value(z, saved) : F().value(z);
}
template <int N, class A>
__device__ __forceinline__ void activate(const MatmulEpilogue& e, A (&z)[N], const A (&saved)[N]) {
  // The same way for all threads. Each has its loop, so that N elements' chains of arithmetic run
  // beside each other.
  switch (e.activation) {
    case Activation::none:
      return;
    case Activation::relu:
#pragma unroll
      for (int k = 0; k < N; ++k) z[k] = activated_by<pw::Relu>(e.gradient, z[k], saved[k]);
      return;
    case Activation::gelu:
#pragma unroll
      for (int k = 0; k < N; ++k) z[k] = activated_by<pw::Gelu>(e.gradient, z[k], saved[k]);
      return;
    case Activation::gelu_tanh:
#pragma unroll
      for (int k = 0; k < N; ++k) z[k] = activated_by<pw::GeluTanh>(e.gradient, z[k], saved[k]);
      return;
    case Activation::silu:
#pragma unroll
      for (int k = 0; k < N; ++k) z[k] = activated_by<pw::Silu>(e.gradient, z[k], saved[k]);
      return;
    case Activation::relu6:
#pragma unroll
      for (int k = 0; k < N; ++k) z[k] = activated_by<pw::Relu6>(e.gradient, z[k], saved[k]);
      return;
    case Activation::hardswish:
#pragma unroll
      for (int k = 0; k < N; ++k) z[k] = activated_by<pw::Hardswish>(e.gradient, z[k], saved[k]);
      return;
  }
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
