// Allocation of device, page-locked and managed memory.
#include <algorithm>

#include "api/api.h"
#include "device/capture.h"
#include "device/copy.h"

using namespace emu;

namespace {

cudaError_t take(void** pointer, BlockKind kind, size_t bytes, u32 flags = 0) {
  if (!pointer) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  Block* b = take_block(kind, current_device(), bytes);
  if (!b) return cudaErrorMemoryAllocation;
  b->flags = flags;
  *pointer = pointer_to(b->begin);
  return cudaSuccess;
}

// What the program did wrong with a pointer that it wants to free.
cudaError_t not_a_block(const char* name, const void* pointer) {
  finding(std::string(name) + " of a pointer that is none",
          describe_address(address_of(pointer)) + "\n  called" + describe(CallSite::here()));
  return cudaErrorInvalidValue;
}

void drain_all() {
  for (int d = 0; d < device_count(); ++d)
    if (device_started(d)) drain(d);
}

// Copies that were not waited for: the program's memory would go away below them.
void check_unused(const char* name, const Block& b) {
  const QueuedOp* op = pending_on(b.begin, b.end, true);
  // Host functions might touch anything, which is no reason to suspect them.
  if (op && op->work->kind == WorkKind::host) op = nullptr;
  Conflict c;
  if (!op && !b.registered && !host_knows(b.begin, b.bytes(), &c) && c.other &&
      c.other->work->kind == WorkKind::copy)
    op = c.other;
  if (op)
    finding(std::string(name) + " of memory that queued work uses",
            describe_address(b.begin) + "\n  used by " + describe_op(op) + "\n  freed" +
                describe(CallSite::here()));
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return call("cudaMalloc", kUnsafe, [&] { return take(pointer, BlockKind::device, bytes); });
}

cudaError_t cudaFree(void* pointer) {
  return call("cudaFree", kUnsafe, [&] {
    if (!pointer) return cudaSuccess;
    Block* b = block_at(address_of(pointer));
    if (!b) return not_a_block("cudaFree", pointer);
    if (b->kind == BlockKind::pinned || b->internal) {
      note("cudaFree of " + describe_address(b->begin));
      return cudaErrorInvalidValue;
    }
    if (b->freeing) return not_a_block("cudaFree", pointer);
    // All work that may use it is over before the memory is another's.
    drain_all();
    free_block(address_of(pointer));
    return cudaSuccess;
  });
}

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  return call("cudaMallocPitch", kUnsafe, [&] {
    if (!pitch) return cudaErrorInvalidValue;
    *pitch = (width + 511) / 512 * 512;
    return take(pointer, BlockKind::device, *pitch * height);
  });
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* pitched, cudaExtent extent) {
  return call("cudaMalloc3D", kUnsafe, [&] {
    if (!pitched) return cudaErrorInvalidValue;
    pitched->pitch = (extent.width + 511) / 512 * 512;
    pitched->xsize = extent.width;
    pitched->ysize = extent.height;
    return take(&pitched->ptr, BlockKind::device, pitched->pitch * extent.height * extent.depth);
  });
}

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  return call("cudaMallocManaged", kUnsafe, [&] {
    if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
      return cudaErrorInvalidValue;
    return take(pointer, BlockKind::managed, bytes, flags);
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call("cudaMemGetInfo", [&] {
    if (!free || !total) return cudaErrorInvalidValue;
    *total = gpu_model().memory;
    *free = *total - memory_used(current_device());
    return cudaSuccess;
  });
}

// --- page-locked memory ---
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return call("cudaHostAlloc", kUnsafe, [&] {
    if (flags > 7) return cudaErrorInvalidValue;
    return take(pointer, BlockKind::pinned, bytes, flags);
  });
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* pointer) {
  return call("cudaFreeHost", kUnsafe, [&] {
    if (!pointer) return cudaSuccess;
    Block* b = block_at(address_of(pointer));
    if (!b) return not_a_block("cudaFreeHost", pointer);
    if (b->kind != BlockKind::pinned || b->registered) {
      note("cudaFreeHost of " + describe_address(b->begin));
      return cudaErrorInvalidValue;
    }
    check_unused("cudaFreeHost", *b);
    if (pending_on(b->begin, b->end, true)) drain_all();
    free_block(address_of(pointer));
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return call("cudaHostRegister", kUnsafe, [&] {
    if (!pointer || bytes == 0 || in_device_space(address_of(pointer)))
      return cudaErrorInvalidValue;
    Block* b = register_block(address_of(pointer), bytes, current_device());
    if (!b) return cudaErrorHostMemoryAlreadyRegistered;
    b->flags = flags;
    return cudaSuccess;
  });
}
cudaError_t cudaHostUnregister(void* pointer) {
  return call("cudaHostUnregister", kUnsafe, [&] {
    if (!pointer) return cudaErrorInvalidValue;
    Block* b = block_at(address_of(pointer));
    if (!b || !b->registered) return cudaErrorHostMemoryNotRegistered;
    check_unused("cudaHostUnregister", *b);
    if (pending_on(b->begin, b->end, true)) drain_all();
    free_block(address_of(pointer));
    return cudaSuccess;
  });
}
// Addresses are the same on both sides.
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return call("cudaHostGetDevicePointer", [&] {
    const Block* b = find_block(address_of(host));
    if (!device || flags || !b || b->kind != BlockKind::pinned) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}
cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  return call("cudaHostGetFlags", [&] {
    const Block* b = find_block(address_of(host));
    if (!flags || !b || b->kind != BlockKind::pinned) return cudaErrorInvalidValue;
    *flags = b->flags | cudaHostAllocMapped;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* pointer) {
  return call("cudaPointerGetAttributes", [&] {
    if (!a) return cudaErrorInvalidValue;
    *a = {};
    a->hostPointer = const_cast<void*>(pointer);
    a->type = cudaMemoryTypeUnregistered;
    a->device = cudaInvalidDeviceId;
    const Block* b = find_block(address_of(pointer));
    if (!b) return cudaSuccess;
    a->type = b->kind == BlockKind::device   ? cudaMemoryTypeDevice
              : b->kind == BlockKind::pinned ? cudaMemoryTypeHost
                                             : cudaMemoryTypeManaged;
    a->device = b->device;
    a->devicePointer = const_cast<void*>(pointer);
    if (b->kind == BlockKind::device) a->hostPointer = nullptr;
    return cudaSuccess;
  });
}

// --- hints for managed memory ---
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation, unsigned,
                                 cudaStream_t stream) {
  return call("cudaMemPrefetchAsync", [&] {
    if (!stream_or_note("cudaMemPrefetchAsync", stream)) return cudaErrorInvalidResourceHandle;
    const Block* b = find_block(address_of(pointer), bytes);
    return b && b->kind == BlockKind::managed ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise, cudaMemLocation) {
  return call("cudaMemAdvise", [&] {
    const Block* b = find_block(address_of(pointer), bytes);
    return b && b->kind == BlockKind::managed ? cudaSuccess : cudaErrorInvalidValue;
  });
}
