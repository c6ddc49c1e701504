// What the cuda device tells about itself beside core/device.h and core/memory.h. No CUDA headers.
#pragma once
#include "warptape/core/stream.h"
#include "warptape/kernels/cuda/allocator.h"

namespace wt {

// The allocator's figures. Throws NotAvailable, PlacementError.
CudaPoolStats cuda_pool_stats(Device d);

}  // namespace wt
