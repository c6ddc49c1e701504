// Inverse activations on the cpu.
#include "warptape/kernels/activation_inverse.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/pointwise/activation_inverse_cpu.h"
#include "warptape/kernels/pointwise/activation_inverse_math.h"

namespace wt {

void activation_inverse_part(const ActivationInverseArgs& a, i64 from, i64 to) {
  dispatch_floating(a.x.dtype(), [&]<class S>() {
    using T = ComputeType<S>;
    const S* y = a.y.as<const S>();
    const u8* bits = a.bits.as<const u8>();
    S* x = a.x.as<S>();
    with_inverted(a.f, [&]<class F>(F) {
      for (i64 i = from; i < to; ++i)
        x[i] = S(activation_inverse<F>(T(y[i]), (bits[i / 8] >> (i % 8) & 1) != 0));
    });
  });
}

static void reference(const ActivationInverseArgs& a, const Launch&) {
  activation_inverse_part(a, 0, a.x.numel());
}

WT_VARIANTS(cpu, activation_inverse, ActivationInverseArgs,
            {.name = "threaded", .rank = 20, .launch = activation_inverse_threaded},
            {.name = "reference", .rank = 10, .launch = reference});

}  // namespace wt
