// The fused backwards of two-operand entries and of those with parameters, on simt and cuda.
#include "warptape/kernels/device/pointwise.cuh"

namespace wt {
WT_POINTWISE_BINARY_BACKWARD_CONTRACTS(WT_POINTWISE_DEVICE_ROWS)
}  // namespace wt
