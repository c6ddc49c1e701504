// cuBLASLt for vendor kernels. Includes NVIDIA's header: only *_cublas.cpp and the benchmarks do.
#pragma once
#include <cublasLt.h>

#include "warptape/core/device.h"

namespace wt {

// This thread's handle for the device, made at first use and destroyed with the thread. Makes the
// device the thread's current one. Throws DeviceError.
cublasLtHandle_t cublaslt_handle(Device d);

// Throws DeviceError for any status but success; NotAvailable when cuBLASLt has no kernel for the
// problem or the chip.
void cublas_check(cublasStatus_t status, const char* call, Device d);

// Bytes of workspace that cuBLASLt's fast kernels may ask for on Hopper.
inline constexpr i64 kCublasWorkspace = i64{32} << 20;

}  // namespace wt
