// The fused backwards of two-operand entries and of those with parameters, on the cpu.
#include "warptape/kernels/cpu/pointwise.h"

namespace wt {
WT_POINTWISE_BINARY_BACKWARD_CONTRACTS(WT_POINTWISE_CPU_ROWS)
}  // namespace wt
