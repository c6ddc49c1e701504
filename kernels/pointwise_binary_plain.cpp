// Two-operand entries without fused backwards, where and lerp on the cpu.
#include "warptape/kernels/cpu/pointwise.h"

namespace wt {
WT_POINTWISE_BINARY_PLAIN_CONTRACTS(WT_POINTWISE_CPU_ROWS)
}  // namespace wt
