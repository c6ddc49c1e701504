// One-operand entries without a derivative, and neg, on simt and cuda.
#include "warptape/kernels/device/pointwise.cuh"

namespace wt {
WT_POINTWISE_PLAIN_CONTRACTS(WT_POINTWISE_DEVICE_ROWS)
}  // namespace wt
