// Dropout from Philox: the mask is a function of (key, call, element), so backward and
// recomputation draw it again instead of saving it.
#pragma once
#include "warptape/core/philox.h"
#include "warptape/kernels/contract.h"

namespace wt {

// out[i] = keep(i) ? in[i] / (1 - p) : 0 with keep(i) = uniform24(philox(key, i / 4, call)[i % 4])
// >= p, i the logical element: the same mask on every device, whatever the strides, grid and vector
// width. out, in: one shape and dtype (f64 f32 f16 bf16), dense; out may be in. p in [0, 1]; p = 1
// gives 0.
struct DropoutArgs {
  View out, in;
  PhiloxKey key{};
  u64 call = 0;
  double p = 0;
  i64 bytes() const { return out.bytes() + in.bytes(); }
  i64 flops() const { return out.numel(); }
};
WT_CONTRACT(dropout, DropoutArgs);

// What kept elements are multiplied with.
WT_HD constexpr double dropout_scale(double p) { return p < 1 ? 1 / (1 - p) : 0; }

}  // namespace wt
