// Dropout (Srivastava et al., 2014), inverted: what is kept is scaled up, so that evaluation is the
// identity.
#pragma once
#include "warptape/core/philox.h"
#include "warptape/kernels/contract.h"

namespace wt {

// out[i] = keep(i) ? in[i] * scale : 0, of one shape and floating dtype; out may be in.
//
// keep(i) depends on the element's place in logical order alone, so not on strides, variant or
// device: the i % 4-th word of philox(key, i / 4, call), of which the upper 24 bits reach
// `threshold`. The product is taken in f32 (f64 for f64). The backward is the same function of the
// gradient: no mask is saved.
struct DropoutArgs {
  View out, in;
  PhiloxKey key{};
  u64 call = 0;
  const i64* call_base = nullptr;  // a device scalar that is added to `call`; null: 0
  u32 threshold = 0;               // of 2^24: round(p * 2^24)
  double scale = 1;                // 1 / (1 - p)
  i64 bytes() const { return out.bytes() + in.bytes(); }
  i64 flops() const { return out.numel(); }

  WT_HD WT_HOT static bool keeps(u32 word, u32 threshold) { return word >> 8 >= threshold; }
};
WT_CONTRACT(dropout, DropoutArgs);

}  // namespace wt
