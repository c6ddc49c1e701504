// Dropout on the cpu.
#include "warptape/kernels/dropout.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/strided.h"
#include "warptape/kernels/random/dropout_cpu.h"

namespace wt {
namespace {

void reference(const DropoutArgs& a, const Launch&) {
  const LoopNest<2> nest = loop_nest({a.out, a.in});
  const u64 call = a.call + (a.call_base ? u64(*a.call_base) : 0);
  dispatch_floating(a.out.dtype(), [&]<class S>() {
    using T = ComputeType<S>;
    i64 i = 0;  // in logical order
    for_each_row(nest, [&](const i64(&at)[2]) {
      for (i64 k = 0; k < nest.inner(); ++k, ++i) {
        const u32 word = philox(a.key, u64(i / 4), call).v[i % 4];
        const T x = T(a.in.as<S>()[at[1] + k * nest.inner_stride(1)]);
        a.out.as<S>()[at[0] + k * nest.inner_stride(0)] =
            DropoutArgs::keeps(word, a.threshold) ? S(x * T(a.scale)) : S(0);
      }
    });
  });
}

}  // namespace

WT_VARIANTS(
    cpu, dropout, DropoutArgs,
    {.name = "vectorized", .rank = 10, .why_not = dropout_why_not, .launch = dropout_vectorized},
    {.name = "reference", .launch = reference});

}  // namespace wt
