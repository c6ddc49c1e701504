// The fused backwards of one-operand entries on simt and cuda.
#include "warptape/kernels/pointwise_kernels.cuh"

namespace wt {
WT_POINTWISE_BACKWARD_CONTRACTS(WT_POINTWISE_DEVICE_ROWS)
}  // namespace wt
