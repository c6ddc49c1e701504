// Starts devices: connects their memory to the core. Knows, like all.cpp, what is built.
#include <cstring>

#include "warptape/config.h"
#include "warptape/core/copy_bytes.h"
#include "warptape/core/error.h"
#include "warptape/core/storage.h"
#include "warptape/kernels/cuda_api.h"
#include "warptape/kernels/simt/executor.h"

namespace wt {
namespace {

// Copies with the simt arena opened to the host for their length.
void simt_copy(void* to, Device, const void* from, i64 bytes) {
  const SimtUnprotect open;
  std::memcpy(to, from, size_t(bytes));
}

constexpr BlockAllocator kSimtBlocks = {
    [](Device, i64 bytes) { return simt_arena_alloc(size_t(bytes)); },
    [](Device, void* block, i64) { simt_arena_free(block); }, [] {},
    [](Device) { return i64(simt_arena_info().committed); }};

constexpr CopyBackend kSimtCopies = {simt_copy, simt_copy,
                                     [](void* to, const void* from, Device, i64 bytes) {
                                       const SimtUnprotect open;
                                       std::memmove(to, from, size_t(bytes));
                                     },
                                     [](void* to, Device, i64 bytes) {
                                       const SimtUnprotect open;
                                       std::memset(to, 0, size_t(bytes));
                                     },
                                     [](Device) {}};

}  // namespace

void start_cuda_device();  // kernels/cuda_device.cpp

void start_device(DeviceKind k) {
  if (k == DeviceKind::cuda) return start_cuda_device();
  if (k != DeviceKind::simt) throw InternalError(str(device_kind_name(k), " has nothing to start"));
  set_block_allocator(k, &kSimtBlocks);
  set_copy_backend(k, &kSimtCopies);
}

#if !WARPTAPE_HAS_CUDA
const CudaApi* built_cuda_api() { return nullptr; }  // else kernels/cuda_runtime.cpp
#endif

}  // namespace wt
