// Argmax, logsumexp, norm and variance on simt and cuda; reduce.cpp has them on the cpu.
#include "warptape/kernels/device/reduce.cuh"

namespace wt {
WT_REDUCTIONS_OF_STATES(WT_REDUCE_DEVICE_ROWS)
}  // namespace wt
