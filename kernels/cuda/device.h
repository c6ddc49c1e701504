// What the cuda device tells about itself beside core/device.h and core/memory.h. No CUDA headers.
#pragma once
#include <string>

#include "warptape/core/stream.h"
#include "warptape/kernels/cuda/allocator.h"

namespace wt {

// The allocator's figures. Throws NotAvailable, PlacementError.
CudaPoolStats cuda_pool_stats(Device d);

// Where the GPU is on the PCI bus, "0000:19:00.0", by which NVML's GPUs (machine::Gpu::bus) are
// told to be CUDA's: CUDA numbers those alone that CUDA_VISIBLE_DEVICES names. Empty where the
// driver does not tell. Throws NotAvailable, PlacementError.
std::string cuda_bus(Device d);

// For `wt info`: version and file of the cuBLASLt that products use, or why there is none.
std::string describe_cublaslt();

}  // namespace wt
