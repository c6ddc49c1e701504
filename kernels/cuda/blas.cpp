#include "warptape/kernels/cuda/blas.h"

#include "warptape/core/error.h"
#include "warptape/core/memory_footprint.h"
#include "warptape/kernels/cuda/api.h"
#include "warptape/kernels/cuda/handle.h"

namespace wt {
namespace {

struct LtTraits {
  using Type = cublasLtHandle_t;
  static void destroy(Type h) noexcept { cublasLtDestroy(h); }
};
thread_local CudaHandle<LtTraits> handles[64];  // by device

}  // namespace

void cublas_check(cublasStatus_t status, const char* call, Device d) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  const std::string text = str(call, " on ", to_string(d), ": ", cublasLtGetStatusString(status));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH)
    throw NotAvailable(text);
  // A dead context shows up here as an internal error: the runtime knows the cause.
  if (const int code = cuda_api()->last_error(); code != kCudaSuccess)
    cuda_failed(code, call, d.index);
  throw DeviceError(text);
}

cublasLtHandle_t cublaslt_handle(Device d) {
  require_available(d);
  enter_cuda(d.index);
  CudaHandle<LtTraits>& h = handles[d.index];
  if (!h) {
    const memory::ExternalScope outside(d, "cuBLASLt");
    cublasLtHandle_t made = nullptr;
    cublas_check(cublasLtCreate(&made), "cublasLtCreate", d);
    h = CudaHandle<LtTraits>(made);
  }
  return h.get();
}

}  // namespace wt
