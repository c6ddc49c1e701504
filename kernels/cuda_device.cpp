// The cuda device's memory, first version: whole blocks from the runtime, copies that wait.
#include <cuda_runtime.h>

#include <atomic>

#include "warptape/core/copy_bytes.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/storage.h"

namespace wt {
namespace {

struct Found {
  int count = 0;
  std::string why_not;
};

// Asked once: the driver's answer does not change while a process runs.
const Found& found() {
  static const Found answer = [] {
    Found f;
    int count = 0;  // an error leaves it as it is
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count > 0) {
      f.count = count;
      return f;
    }
    const char* detail =
        code == cudaSuccess ? "the driver sees no device" : cudaGetErrorString(code);
    f.why_not = str("no usable CUDA device: ", detail);
    if (code == cudaErrorInsufficientDriver)
      f.why_not += "; install NVIDIA's driver (nvidia-smi shows its version)";
    cudaGetLastError();  // a refused question must not show up at the next launch
    return f;
  }();
  return answer;
}

void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw DeviceError(str(what, ": ", cudaGetErrorString(code)));
}

std::atomic<i64> reserved_bytes[256];

void* take(Device d, i64 bytes) {
  check(cudaSetDevice(d.index), "cudaSetDevice");
  void* block = nullptr;
  const cudaError_t code = cudaMalloc(&block, size_t(bytes));
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(code, "cudaMalloc");
  reserved_bytes[d.index] += bytes;
  return block;
}

// Frees wait for the device; an error here has been or will be reported by the next wait.
void give(Device d, void* block, i64 bytes) {
  cudaSetDevice(d.index);
  cudaFree(block);
  reserved_bytes[d.index] -= bytes;
}

constexpr BlockAllocator kBlocks = {take, give, [] {},
                                    [](Device d) { return reserved_bytes[d.index].load(); }};

void copy(void* to, const void* from, Device d, i64 bytes, cudaMemcpyKind kind) {
  check(cudaSetDevice(d.index), "cudaSetDevice");
  check(cudaMemcpy(to, from, size_t(bytes), kind), "cudaMemcpy");
}

constexpr CopyBackend kCopies = {[](void* host, Device d, const void* device, i64 bytes) {
                                   copy(host, device, d, bytes, cudaMemcpyDeviceToHost);
                                 },
                                 [](void* device, Device d, const void* host, i64 bytes) {
                                   copy(device, host, d, bytes, cudaMemcpyHostToDevice);
                                 },
                                 [](void* to, const void* from, Device d, i64 bytes) {
                                   copy(to, from, d, bytes, cudaMemcpyDeviceToDevice);
                                 },
                                 [](void* to, Device d, i64 bytes) {
                                   check(cudaSetDevice(d.index), "cudaSetDevice");
                                   check(cudaMemset(to, 0, size_t(bytes)), "cudaMemset");
                                 },
                                 [](Device d) {
                                   check(cudaSetDevice(d.index), "cudaSetDevice");
                                   check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
                                 }};

}  // namespace

namespace cuda {
bool is_available() { return found().count > 0; }
int device_count() { return found().count; }
std::string why_not() { return found().why_not; }
}  // namespace cuda

void start_cuda_device() {
  if (!cuda::is_available()) throw NotAvailable(cuda::why_not());
  set_block_allocator(DeviceKind::cuda, &kBlocks);
  set_copy_backend(DeviceKind::cuda, &kCopies);
}

}  // namespace wt
