// What a launch on cuda needs beside the kernel: the right device, its limits, shared memory above
// 48 KiB, and an allocator that knows which stream uses what.
#include "warptape/core/error.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/cuda/state.h"

namespace wt {

void prepare_cuda_launch(const void* args, size_t bytes, const Launch& l) {
  if (detail::entered_device != l.device.index) enter_cuda(l.device.index);
  if (process_slow.load(std::memory_order_relaxed) & kSlowStreams)
    detail::cuda_state().devices[l.device.index].pool->use_all(args, bytes, l.stream);
}

int allow_cuda_shared(const void* kernel, size_t bytes) {
  detail::CudaState& s = detail::cuda_state();
  detail::CudaDevice& d = s.devices[current_cuda_device()];
  const std::lock_guard lock(s.mutex);
  size_t& allowed = d.shared_allowed[kernel];
  if (bytes <= allowed) return kCudaSuccess;
  const int code = s.api->allow_shared(kernel, int(bytes));
  if (code == kCudaSuccess)
    allowed = bytes;
  else
    s.api->last_error();
  return code;
}

const DeviceLimits& cuda_limits(int device) {
  detail::CudaState& s = detail::cuda_state();
  detail::CudaDevice& d = s.devices[device];
  if (d.limits_known.load(std::memory_order_acquire)) [[likely]]
    return d.limits;
  cuda::Properties p;
  cuda_check(s.api->properties(&p, device), "cudaGetDeviceProperties", device);
  const std::lock_guard lock(s.mutex);
  if (!d.limits_known.load(std::memory_order_relaxed)) {
    d.limits = {p.major, p.minor, p.multiprocessors, p.shared_bytes};
    d.limits_known.store(true, std::memory_order_release);
  }
  return d.limits;
}

}  // namespace wt
