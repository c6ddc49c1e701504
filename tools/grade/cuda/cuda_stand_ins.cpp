// What launches on cuda want of the library, for a program that has no library (stand_ins.cpp has
// the same for simt).
#include <cuda_runtime_api.h>

#include "warptape/core/device.h"
#include "warptape/core/str.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/device/tensor_map.h"
#include "warptape/kernels/simt/executor.h"

namespace wt {

bool launches_wait = false;

// As the emulated device has them.
const DeviceLimits& device_limits(Device) {
  static constexpr DeviceLimits kH100{9, 0, 132, 227 * 1024};
  return kH100;
}
size_t launch_shared_limit(bool) { return size_t(device_limits({}).shared_bytes); }

[[noreturn]] void launch_rejected(const char*, const char* op, const char* reason,
                                  const unsigned (&dims)[6], size_t shared_bytes) {
  throw KernelError(str(op ? op : "a launch", ": ", reason, ": grid (", dims[0], ",", dims[1], ",",
                        dims[2], "), block (", dims[3], ",", dims[4], ",", dims[5], "), ",
                        shared_bytes, " bytes of dynamic shared memory"));
}
[[noreturn]] void launch_failed(const char*, const char* op, const char* reason, int code) {
  throw KernelError(str(op ? op : "a launch", ": ", reason, " (CUDA error ", code, ")"));
}
void allow_dynamic_shared(const char* kernel, const char* op, const void* function, size_t bytes) {
  const cudaError_t code =
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
  if (code != cudaSuccess) launch_failed(kernel, op, cudaGetErrorString(code), int(code));
}

// TMA is not emulated.
const char* why_no_cuda_tensor_map() { return "the emulated device has no TMA"; }
void make_cuda_tensor_map(void*, const TensorBox&) { throw KernelError(why_no_cuda_tensor_map()); }
const char* tensor_box_problem(const TensorBox&) { return why_no_cuda_tensor_map(); }
void tensor_map_rejected(const char* reason, const TensorBox&) { throw KernelError(reason); }

}  // namespace wt
