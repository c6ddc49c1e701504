// What the executor wants of the library beside itself, for a program that has no library: linked
// with all of it every student's program would have every kernel there is, and take a second more.
#include <string>

#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/mode.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/cuda/api.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/kernels/simt/queues.h"

namespace wt {

// Nobody's operators run here, and nobody captures them.
constinit thread_local Mode mode = {};
std::string to_string(const ModulePath*) { return {}; }
const CudaApi* cuda_api() { return nullptr; }

// Blocks run one after the other: what a verdict says must not depend on how busy the machine is.
int num_threads() { return 1; }
void detail::run_in_pool(int, int tasks, void (*call)(void*, int, int), void* context) {
  for (int i = 0; i < tasks; ++i) call(context, i, 0);
}

namespace simt_runtime {
bool recording() { return false; }
void record(const GridLaunch&) {}
void record(const Copy&, void*) {}
}  // namespace simt_runtime

// As an H100 has them (kernels/device/launch.cpp).
const DeviceLimits& device_limits(Device) {
  static constexpr DeviceLimits kH100{9, 0, 132, 227 * 1024};
  return kH100;
}
size_t launch_shared_limit(bool) { return size_t(device_limits({}).shared_bytes); }
[[noreturn]] void launch_rejected(const char* kernel, const char* op, const char* reason,
                                  const unsigned (&dims)[6], size_t shared_bytes) {
  throw KernelError(str(simt_runtime::kernel_name(kernel), op ? str(" [", op, "]") : std::string(),
                        ": ", reason, ": grid (", dims[0], ",", dims[1], ",", dims[2], "), block (",
                        dims[3], ",", dims[4], ",", dims[5], "), ", shared_bytes,
                        " bytes of dynamic shared memory"));
}

}  // namespace wt
