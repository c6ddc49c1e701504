#include "warptape/kernels/dropout.h"

#include "warptape/kernels/cpu_dtypes.h"

namespace wt {
namespace {

void dropout_reference(const DropoutArgs& a, const Launch&) {
  dispatch_floating(a.out.dtype(), [&]<class S>() {
    using T = ComputeType<S>;
    const T scale = T(dropout_scale(a.p));
    const float p = float(a.p);
    const S* in = a.in.as<S>();
    S* out = a.out.as<S>();
    for (i64 i = 0; i < a.out.numel(); ++i) {
      const u32 bits = philox(a.key, u64(i) / 4, a.call).v[i % 4];
      out[i] = uniform24(bits) >= p ? S(T(in[i]) * scale) : S(T(0));
    }
  });
}

// One block of the generator gives four elements.
void dropout_blocks(const DropoutArgs& a, const Launch&) {
  dispatch_floating(a.out.dtype(), [&]<class S>() {
    using T = ComputeType<S>;
    const T scale = T(dropout_scale(a.p));
    const float p = float(a.p);
    const S* in = a.in.as<S>();
    S* out = a.out.as<S>();
    const i64 n = a.out.numel();
    for (i64 b = 0; b * 4 < n; ++b) {
      const PhiloxBlock r = philox(a.key, u64(b), a.call);
      const i64 end = b * 4 + 4 < n ? 4 : n - b * 4;
      for (i64 k = 0; k < end; ++k)
        out[b * 4 + k] = uniform24(r.v[k]) >= p ? S(T(in[b * 4 + k]) * scale) : S(T(0));
    }
  });
}

}  // namespace

WT_VARIANTS(cpu, dropout, DropoutArgs, {.name = "blocks", .rank = 10, .launch = dropout_blocks},
            {.name = "reference", .rank = 1, .launch = dropout_reference});

}  // namespace wt
