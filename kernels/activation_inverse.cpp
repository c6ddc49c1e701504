// Inverse activations on the cpu: a loop an element, divided among threads.
#include "warptape/kernels/activation_inverse.h"

#include "warptape/kernels/common/activation_inverse.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/pieces.h"

namespace wt {
namespace {

template <class F, class S>
void invert_part(const ActivationInverseArgs& a, i64 from, i64 to) {
  using T = ComputeType<S>;
  const S* y = a.y.as<const S>();
  const u8* bits = a.bits.as<const u8>();
  S* x = a.x.as<S>();
  for (i64 i = from; i < to; ++i)
    x[i] = S(activation_inverse<F>(T(y[i]), (bits[i / 8] >> (i % 8) & 1) != 0));
}

template <bool Threads>
void invert(const ActivationInverseArgs& a, const Launch&) {
  const i64 n = a.x.numel();
  dispatch_floating(a.x.dtype(), [&]<class S>() {
    with_inverted(a.f, [&]<class F>(F) {
      if constexpr (Threads)
        in_pieces(n, [&](i64 from, i64 to) { invert_part<F, S>(a, from, to); });
      else
        invert_part<F, S>(a, 0, n);
    });
  });
}

}  // namespace

WT_VARIANTS(cpu, activation_inverse, ActivationInverseArgs,
            {.name = "threaded", .rank = 20, .launch = invert<true>},
            {.name = "reference", .rank = 10, .launch = invert<false>});

}  // namespace wt
