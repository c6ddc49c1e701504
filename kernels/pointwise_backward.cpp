// The cpu variants of the fused backwards of one-operand entries.
#include "warptape/kernels/cpu/pointwise.h"

namespace wt {
WT_POINTWISE_BACKWARD_CONTRACTS(WT_POINTWISE_CPU_ROWS)
}  // namespace wt
