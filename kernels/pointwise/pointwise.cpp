// One-operand entries with fused backwards, and where and lerp, on the cpu.
#include "warptape/kernels/pointwise/pointwise_cpu.h"

namespace wt {
WT_POINTWISE_UNARY_CONTRACTS(WT_POINTWISE_CPU_ROWS)
}  // namespace wt
