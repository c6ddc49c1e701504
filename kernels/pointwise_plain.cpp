// One-operand entries without a derivative, and neg, on the cpu.
#include "warptape/kernels/cpu/pointwise.h"

namespace wt {
WT_POINTWISE_PLAIN_CONTRACTS(WT_POINTWISE_CPU_ROWS)
}  // namespace wt
