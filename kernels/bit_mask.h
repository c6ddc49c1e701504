// A bit an element, for what backward asks of a relu's output.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// Bit i % 8 of bits[i / 8] = !(in[i] <= 0): set for positive values and NaN, where the gradient of
// relu passes. Bits past the last element are 0.
// in: dense, f64 f32 f16 bf16. bits: u8 [ceil(n / 8)], contiguous.
struct BitPackArgs {
  View bits, in;
  i64 bytes() const { return bits.bytes() + in.bytes(); }
  i64 flops() const { return 0; }
};
WT_CONTRACT(bit_pack, BitPackArgs);

// out[i] = 1 where the bit is set, else 0.
// out: dense, f64 f32 f16 bf16. bits: as above.
struct BitUnpackArgs {
  View out, bits;
  i64 bytes() const { return bits.bytes() + out.bytes(); }
  i64 flops() const { return 0; }
};
WT_CONTRACT(bit_unpack, BitUnpackArgs);

}  // namespace wt
