// Two-operand entries with fused backwards on the cpu.
#include "warptape/kernels/cpu/pointwise.h"

namespace wt {
WT_POINTWISE_BINARY_CONTRACTS(WT_POINTWISE_CPU_ROWS)
}  // namespace wt
