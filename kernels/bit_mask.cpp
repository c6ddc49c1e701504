// Bits of relu's output on the cpu.
#include "warptape/kernels/bit_mask.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/bit_mask.h"

namespace wt {
namespace {

void pack_reference(const BitPackArgs& a, const Launch&) {
  const i64 n = a.in.numel();
  dispatch_floating(a.in.dtype(), [&]<class S>() {
    const S* in = a.in.as<const S>();
    u8* bits = a.bits.as<u8>();
    for (i64 i = 0; i < n; i += 8) {
      u32 byte = 0;
      for (i64 k = 0; k < 8 && i + k < n; ++k) byte |= u32(!(ComputeType<S>(in[i + k]) <= 0)) << k;
      bits[i / 8] = u8(byte);
    }
  });
}

void unpack_reference(const BitUnpackArgs& a, const Launch&) {
  const i64 n = a.out.numel();
  dispatch_floating(a.out.dtype(), [&]<class S>() {
    const u8* bits = a.bits.as<const u8>();
    S* out = a.out.as<S>();
    for (i64 i = 0; i < n; ++i) out[i] = S(ComputeType<S>(bits[i / 8] >> (i % 8) & 1));
  });
}

}  // namespace

WT_VARIANTS(cpu, bit_pack, BitPackArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = bit_pack_why_not,
                        .launch = bit_pack_avx2)  //
            {.name = "reference", .rank = 10, .launch = pack_reference});
WT_VARIANTS(cpu, bit_unpack, BitUnpackArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = bit_unpack_why_not,
                        .launch = bit_unpack_avx2)  //
            {.name = "reference", .rank = 10, .launch = unpack_reference});

}  // namespace wt
