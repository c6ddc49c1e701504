// cuBLASLt for vendor kernels, as a table of functions that is filled in when the first product
// asks: its library has 350,000 addresses to relocate, 0.2 s that no start of a program should wait
// for, and where there is none our own kernels multiply. Includes NVIDIA's header: only
// *_cublas.cpp and the benchmarks do.
#pragma once
#include <cublasLt.h>

#include "warptape/core/device.h"
#include "warptape/core/machine/load_library.h"

namespace wt {

// Functions of libcublasLt.so of the toolkit's major version, as its header declares them.
struct CublasLt {
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_text;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmulDescInit_internal) init_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatrixLayoutInit_internal) init_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceInit_internal) init_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;
};

struct CublasLtFound {
  const CublasLt* api = nullptr;  // null: why_not says why
  std::string file, why_not;
};
// Looks for one: WT_CUBLASLT (a file, or "off"), what the system finds, CUDA_HOME, CUDA_PATH, the
// toolkit's usual folder, Python's wheels.
CublasLtFound find_cublaslt(const LibraryLoader& loader);

// Null where there is none.
const char* cublaslt_why_not();
// Throws NotAvailable where there is none.
const CublasLt& cublaslt();

// This thread's handle for the device, made at first use and destroyed with the thread. Makes the
// device the thread's current one. Throws NotAvailable, DeviceError.
cublasLtHandle_t cublaslt_handle(Device d);

// Throws DeviceError for any status but success; NotAvailable when cuBLASLt has no kernel for the
// problem or the chip.
void cublas_check(cublasStatus_t status, const char* call, Device d);

// Bytes of workspace that cuBLASLt's fast kernels may ask for on Hopper.
inline constexpr i64 kCublasWorkspace = i64{32} << 20;

}  // namespace wt
