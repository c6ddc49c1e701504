// Two-operand entries with fused backwards on simt and cuda.
#include "warptape/kernels/device/pointwise.cuh"

namespace wt {
WT_POINTWISE_BINARY_CONTRACTS(WT_POINTWISE_DEVICE_ROWS)
}  // namespace wt
