// Cold ends of device/launch.cuh: device code includes no STL, so it hands over plain data. And
// what devices allow.
#include <atomic>

#include "warptape/core/error.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/cuda/api.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/kernels/simt/runtime.h"

namespace wt {

bool launches_wait = false;

namespace {
std::string title(const char* kernel, const char* op) {
  const std::string name = simt_runtime::kernel_name(kernel);
  return op ? name + " [" + op + "]" : name;
}
// Device limits that are not asked of a driver.
constexpr DeviceLimits kH100{9, 0, 132, 227 * 1024}, kNone{};
std::atomic<const DeviceLimits*> simt_limits{&kH100};

}  // namespace

const DeviceLimits& device_limits(Device d) {
  switch (d.kind) {
    case DeviceKind::cpu:
      return kNone;
    case DeviceKind::simt:
      return *simt_limits.load(std::memory_order_relaxed);
    case DeviceKind::cuda:
      break;
  }
  return d.index < cuda::device_count() ? cuda_limits(d.index) : kH100;
}

void detail::set_simt_limits(const DeviceLimits* limits) { simt_limits = limits ? limits : &kH100; }

// The launchers of device/launch.cuh declare these; its device half cannot be included here.
[[noreturn]] WT_API void launch_rejected(const char* kernel, const char* op, const char* reason,
                                         const unsigned (&dims)[6], size_t shared_bytes) {
  throw KernelError(str(title(kernel, op), ": ", reason, ": grid (", dims[0], ",", dims[1], ",",
                        dims[2], "), block (", dims[3], ",", dims[4], ",", dims[5], "), ",
                        shared_bytes, " bytes of dynamic shared memory"));
}

WT_API size_t launch_shared_limit(bool on_cuda) {
  const Device d = on_cuda ? Device::cuda(current_cuda_device()) : Device::simt();
  return size_t(device_limits(d).shared_bytes);
}

void allow_dynamic_shared(const char* kernel, const char* op, const void* function, size_t bytes) {
  if (const int code = allow_cuda_shared(function, bytes); code != kCudaSuccess)
    cuda_launch_failed(title(kernel, op), cuda_api()->error_text(code), code);
}

[[noreturn]] void launch_failed(const char* kernel, const char* op, const char* reason, int code) {
  cuda_launch_failed(title(kernel, op), reason, code);
}

}  // namespace wt
