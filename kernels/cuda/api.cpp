// Which cuda devices there are, why there is none, and what a failed call means.
#include "warptape/kernels/cuda/api.h"

#include <cstdlib>

#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/mode.h"
#include "warptape/kernels/cuda/state.h"

namespace wt {
namespace detail {
namespace {

CudaState* make_state(const CudaApi* api) {
  auto* s = new CudaState;
  s->api = api;
  if (!api) {
    s->why_not = str("this build has no cuda: ", why_without("cuda"));
    return s;
  }
  int count = 0;  // an error leaves it as it is
  const int code = api->device_count(&count);
  s->why_not = explain_cuda_count(*api, code, count, std::getenv("CUDA_VISIBLE_DEVICES"));
  if (code != kCudaSuccess) api->last_error();  // a refused question is no launch's error
  if (s->why_not.empty()) s->count = count < kMaxCudaDevices ? count : kMaxCudaDevices;
  return s;
}

std::atomic<CudaState*> state{nullptr};

}  // namespace

constinit thread_local int entered_device = -1;

CudaState& cuda_state() {
  if (CudaState* s = state.load(std::memory_order_acquire)) [[likely]]
    return *s;
  static CudaState* real = make_state(built_cuda_api());  // outlives static destructors
  CudaState* none = nullptr;
  state.compare_exchange_strong(none, real);
  return *state.load();
}

CudaState* replace_cuda_state(const CudaApi* api) {
  CudaState* before = &cuda_state();
  forget_mailboxes(DeviceKind::cuda);
  disconnect_cuda();
  state = make_state(api);
  entered_device = -1;
  return before;
}

void restore_cuda_state(CudaState* before) {
  forget_mailboxes(DeviceKind::cuda);
  disconnect_cuda();
  CudaState* was = state.exchange(before);
  entered_device = -1;
  delete was;
  if (before->started) connect_cuda(*before);
}

}  // namespace detail

const CudaApi* cuda_api() { return detail::cuda_state().api; }

namespace cuda {
bool is_available() { return detail::cuda_state().count > 0; }
int device_count() { return detail::cuda_state().count; }
std::string why_not() { return detail::cuda_state().why_not; }

Properties properties(int index) {
  if (index < 0 || index > 255)
    throw PlacementError(str("there is no cuda:", index, ": indices begin at 0"));
  require_available(Device::cuda(index));
  enter_cuda(index);
  const CudaApi& api = *cuda_api();
  Properties p;
  cuda_check(api.properties(&p, index), "cudaGetDeviceProperties", index);
  size_t free = 0, total = 0;
  cuda_check(api.memory_info(&free, &total), "cudaMemGetInfo", index);
  p.free_bytes = i64(free);
  cuda_check(api.driver_version(&p.driver), "cudaDriverGetVersion", index);
  cuda_check(api.runtime_version(&p.runtime), "cudaRuntimeGetVersion", index);
  return p;
}
}  // namespace cuda

// --- why there is no device ---
namespace {
std::string version_text(int v) { return str(v / 1000, ".", v % 1000 / 10); }
}  // namespace

std::string explain_cuda_count(const CudaApi& api, int code, int count, const char* visible) {
  if (code == kCudaSuccess && count > 0) return {};
  int driver = 0, runtime = 0;
  if (api.driver_version(&driver) != kCudaSuccess) driver = 0;
  if (api.runtime_version(&runtime) != kCudaSuccess) runtime = 0;
  const std::string needed = runtime ? version_text(runtime) : "12.4";
  const std::string none = "no usable CUDA device: ";
  switch (code) {
    case kCudaInsufficientDriver:
      if (driver == 0)
        return none +
               "no NVIDIA driver (libcuda.so.1 cannot be loaded)\n  Try installing one for "
               "CUDA " +
               needed + " or newer; nvidia-smi then shows it";
      return none + "the driver is too old: it is for CUDA " + version_text(driver) +
             ", this build needs " + needed + "\n  Try updating the driver";
    case kCudaStubLibrary:
      return none +
             "the libcuda.so.1 that was loaded is the toolkit's stub\n  Try taking "
             "lib64/stubs out of LD_LIBRARY_PATH";
    case kCudaDriverMismatch:
      return none +
             "driver library and kernel module have different versions\n  Try a reboot, or "
             "reloading the nvidia module";
    case kCudaSystemNotReady:
      return none + "the machine's GPUs are not ready (is the fabric manager running?)";
    case kCudaSuccess:
    case kCudaNoDevice:
      if (visible && !*visible)
        return none + "CUDA_VISIBLE_DEVICES is empty, which hides every GPU\n  Try unsetting it";
      if (visible)
        return none + "the driver runs, but CUDA_VISIBLE_DEVICES=" + visible +
               " names no GPU of this machine";
      return none + "the driver runs, but sees no GPU";
    default:
      return none + api.error_text(code) + str(" (CUDA error ", code, ")");
  }
}

// --- failed calls ---
bool is_sticky(int code) {
  switch (code) {
    case kCudaEcc:
    case kCudaNvlink:
    case kCudaIllegalAddress:
    case kCudaLaunchTimeout:
    case kCudaContextDestroyed:
    case kCudaAssert:
    case kCudaHardwareStack:
    case kCudaIllegalInstruction:
    case kCudaMisalignedAddress:
    case kCudaInvalidAddressSpace:
    case kCudaInvalidPc:
    case kCudaLaunchFailure:
      return true;
    default:
      return false;
  }
}

bool cuda_is_dead(int device) {
  return device >= 0 && device < detail::kMaxCudaDevices &&
         detail::cuda_state().devices[device].dead.load(std::memory_order_acquire);
}

namespace {

[[noreturn]] WT_COLD void throw_dead(const detail::CudaDevice& d, int device) {
  throw DeviceError(str("cuda:", device, " cannot be used any more in this process: ", d.why_dead));
}

// Remembers the first error that ends the device. `found`: by which call or launch.
void mark_dead(detail::CudaState& s, int device, const std::string& error,
               const std::string& found) {
  detail::CudaDevice& d = s.devices[device];
  const std::lock_guard lock(s.mutex);
  if (d.dead.load(std::memory_order_relaxed)) return;
  d.why_dead = str(error, "\n  found by ", found,
                   s.sync_launches ? ""
                                   : "; an earlier kernel may be the cause"
                                     "\n  Try WT_CUDA_SYNC=1, which names the kernel, or "
                                     "compute-sanitizer with WT_ALLOC=direct");
  d.dead.store(true, std::memory_order_release);
}

}  // namespace

void cuda_failed(int code, const char* call, int device) {
  detail::CudaState& s = detail::cuda_state();
  if (device < 0 || device >= detail::kMaxCudaDevices) device = 0;
  if (s.api) s.api->last_error();
  const std::string op = mode.op ? str("[", mode.op->name, "] ") : std::string();
  const std::string error =
      str(s.api ? s.api->error_text(code) : "no cuda in this build", " (CUDA error ", code, ")");
  if (is_sticky(code)) {
    std::string found = op + call;
    if (mode.frame) found += "\n  at " + describe_frame(mode.frame);
    mark_dead(s, device, error, found);
  }
  if (cuda_is_dead(device)) throw_dead(s.devices[device], device);
  throw DeviceError(str(op, call, " on cuda:", device, ": ", error));
}

void enter_cuda(int device) {
  detail::CudaState& s = detail::cuda_state();
  if (s.forked.load(std::memory_order_relaxed)) [[unlikely]]
    throw DeviceError(
        "this process was forked after cuda was started, which CUDA does not survive\n  Try "
        "starting processes before the first use of cuda");
  if (cuda_is_dead(device)) [[unlikely]]
    throw_dead(s.devices[device], device);
  detail::entered_device = -1;  // should the call fail
  cuda_check(s.api->set_device(device), "cudaSetDevice", device);
  detail::entered_device = device;
}

int current_cuda_device() {
  if (detail::entered_device >= 0) return detail::entered_device;
  int device = 0;
  const CudaApi* api = cuda_api();
  return api && api->current_device(&device) == kCudaSuccess ? device : 0;
}

void cuda_launch_failed(const std::string& kernel, const char* reason, int code) {
  detail::CudaState& s = detail::cuda_state();
  if (s.api) s.api->last_error();  // or the next launch would be blamed too
  const int device = current_cuda_device();
  if (is_sticky(code)) mark_dead(s, device, str(reason, " (CUDA error ", code, ")"), kernel);
  if (cuda_is_dead(device)) throw_dead(s.devices[device], device);
  const bool other_chip = code == kCudaNoKernelImage;
  throw DeviceError(str(kernel, ": ", reason, " (CUDA error ", code, ")",
                        other_chip ? "\n  this build's kernels are for " : "",
                        other_chip ? build_info().cuda_archs : "",
                        other_chip ? "\n  Try building with -DCMAKE_CUDA_ARCHITECTURES=" : "",
                        other_chip ? "the chip's" : ""));
}

}  // namespace wt
