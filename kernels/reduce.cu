// Any, max, prod and sum on simt and cuda.
#include "warptape/kernels/device/reduce.cuh"

namespace wt {
WT_REDUCTIONS_OF_VALUES(WT_REDUCE_DEVICE_ROWS)
}  // namespace wt
