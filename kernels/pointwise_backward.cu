// The fused backwards of one-operand entries on simt and cuda.
#include "warptape/kernels/device/pointwise.cuh"

namespace wt {
WT_POINTWISE_BACKWARD_CONTRACTS(WT_POINTWISE_DEVICE_ROWS)
}  // namespace wt
