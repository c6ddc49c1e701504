// Inverse activations on simt and cuda.
//   elements  one thread an element: arithmetic is what it waits for
#define WT_FORMULAS_BY_LIBM 1  // before pointwise_math.h: an element at a time
#include "warptape/kernels/activation_inverse.h"

#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/pointwise/activation_inverse_math.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr i64 kThreads = 128;

template <class F, class S>
__global__ void __launch_bounds__(kThreads)
    activation_inverse_elements(const S* y, const u8* bits, S* x, i64 n) {
  using T = ComputeType<S>;
  const i64 stride = i64(gridDim.x) * blockDim.x;
  // The lanes of a warp leave the loop together, when its slowest element is done: six turns of
  // Newton's method for most, some 30 where y has nearly underflowed.
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
    x[i] = S(activation_inverse<F>(T(y[i]), (bits[i / 8] >> (i % 8) & 1) != 0));
}

void launch_elements(const ActivationInverseArgs& a, const Launch& l) {
  const i64 n = a.x.numel();
  if (n == 0) return;
  with_inverted(a.f, [&](auto entry) {
    using F = decltype(entry);
    with_float_or_double(a.x.dtype(), [&](auto tag) {
      using S = typename decltype(tag)::type;
      launch<activation_inverse_elements<F, S>>(grid_of(l, ceil_div(n, kThreads), kThreads),
                                                a.y.as<const S>(), a.bits.as<const u8>(),
                                                a.x.as<S>(), n);
    });
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, activation_inverse, ActivationInverseArgs,
            {.name = "elements", .rank = 10, .launch = launch_elements});

}  // namespace wt
