// Bits of relu's output on the cpu.
#include "warptape/kernels/bit_mask.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/pointwise/bit_mask_cpu.h"

namespace wt {
namespace {

void pack_reference(const BitPackArgs& a, const Launch&) {
  const i64 n = a.in.numel();
  dispatch_floating(a.in.dtype(), [&]<class S>() {
    using T = ComputeType<S>;
    const S* in = a.in.as<const S>();
    u8* bits = a.bits.as<u8>();
    const auto set = [&](i64 i) {
      const T x = T(in[i]);
      return a.nan ? !(x <= T(a.above)) : x > T(a.above);
    };
    for (i64 i = 0; i < n; i += 8) {
      u32 byte = 0;
      for (i64 k = 0; k < 8 && i + k < n; ++k) byte |= u32(set(i + k)) << k;
      bits[i / 8] = u8(byte);
    }
  });
}

void gate_reference(const BitGateArgs& a, const Launch&) {
  const i64 n = a.out.numel();
  dispatch_floating(a.out.dtype(), [&]<class S>() {
    using T = ComputeType<S>;
    const u8* bits = a.bits.as<const u8>();
    const S* gy = a.gy.as<const S>();
    S* out = a.out.as<S>();
    const T slope = T(a.slope);
    for (i64 i = 0; i < n; ++i) {
      const bool passes = bits[i / 8] >> (i % 8) & 1;
      out[i] = passes ? gy[i] : a.leaky ? S(T(gy[i]) * slope) : S(T(0));
    }
  });
}

}  // namespace

WT_VARIANTS(cpu, bit_pack, BitPackArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = bit_pack_why_not,
                        .launch = bit_pack_avx2)  //
            {.name = "reference", .rank = 10, .launch = pack_reference});
WT_VARIANTS(cpu, bit_gate, BitGateArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = bit_gate_why_not,
                        .launch = bit_gate_avx2)  //
            {.name = "reference", .rank = 10, .launch = gate_reference});

}  // namespace wt
