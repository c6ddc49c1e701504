// A bit an element, for what backward asks of a relu's output.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// Bit i % 8 of bits[i / 8] says whether in[i] is above `above`; `nan`: whether a NaN counts as
// above. Bits past the last element are 0.
// in: without gaps, in the order of its memory, f64 f32 f16 bf16. bits: u8 [ceil(n / 8)],
// contiguous.
struct BitPackArgs {
  View bits, in;
  double above = 0;  // exact in the dtype that `in` computes in
  bool nan = true;   // relu's gradient passes there
  i64 bytes() const { return bits.bytes() + in.bytes(); }
  i64 flops() const { return 0; }
};
WT_CONTRACT(bit_pack, BitPackArgs);

// The gradient of a relu, leaky or not: out[i] = gy[i] where the bit is set, else gy[i] * slope
// (`leaky`), else 0, whatever gy[i] is.
// out, gy: f64 f32 f16 bf16, one dtype, without gaps, in the order of memory that `bits` were
// packed in; out may be gy. bits: as above.
struct BitGateArgs {
  View out, gy, bits;
  bool leaky = false;
  double slope = 0;
  i64 bytes() const { return out.bytes() + gy.bytes() + bits.bytes(); }
  i64 flops() const { return leaky ? out.numel() : 0; }
};
WT_CONTRACT(bit_gate, BitGateArgs);

}  // namespace wt
