// Two-operand entries without fused backwards, where and lerp on simt and cuda.
#include "warptape/kernels/device/pointwise.cuh"

namespace wt {
WT_POINTWISE_BINARY_PLAIN_CONTRACTS(WT_POINTWISE_DEVICE_ROWS)
}  // namespace wt
