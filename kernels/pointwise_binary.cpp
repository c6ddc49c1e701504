// Two-operand entries with fused backwards on the cpu.
#include "warptape/kernels/pointwise_cpu.h"

namespace wt {
WT_POINTWISE_BINARY_CONTRACTS(WT_POINTWISE_CPU_ROWS)
}  // namespace wt
