// The fused backwards of two-operand entries, on the cpu.
#include "warptape/kernels/pointwise_cpu.h"

namespace wt {
WT_POINTWISE_BINARY_BACKWARD_CONTRACTS(WT_POINTWISE_CPU_ROWS)
}  // namespace wt
