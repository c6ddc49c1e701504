// Copies and fills: every form becomes a CopyRequest or a FillRequest.
#include "api/copy_request.h"
#include "device/modules.h"

using namespace emu;

namespace {

CopyShape line(void* to, const void* from, size_t bytes) {
  CopyShape s;
  s.to = address_of(to);
  s.from = address_of(from);
  s.width = bytes;
  return s;
}
CopyShape rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
               size_t height) {
  CopyShape s = line(to, from, width);
  s.height = height;
  s.to_pitch = to_pitch;
  s.from_pitch = from_pitch;
  return s;
}
CopyShape box(const cudaPitchedPtr& to, cudaExtent extent) {
  CopyShape s = line(to.ptr, nullptr, extent.width);
  s.height = extent.height;
  s.depth = extent.depth;
  s.to_pitch = to.pitch;
  s.to_slice = to.pitch * to.ysize;
  return s;
}

// Synchronous calls are unsafe during a capture: they wait for what does not run.
cudaError_t request(const CopyRequest& r) {
  return call(r.name, r.async ? kPlain : kUnsafe, [&] { return copy(r); });
}
cudaError_t request_fill(const FillRequest& r) {
  return call(r.name, r.async ? kPlain : kUnsafe, [&] { return fill(r); });
}

cudaError_t request_3d(const char* name, const cudaMemcpy3DParms* p, cudaStream_t stream,
                       bool async) {
  CopyRequest r{name, {}, cudaMemcpyDefault, stream, async};
  if (!p) return call(name, [] { return cudaErrorInvalidValue; });
  if (!shape_of(*p, &r.shape)) return call(name, [] { return cudaErrorNotSupported; });
  r.kind = p->kind;
  return request(r);
}

// The part of a symbol that a copy is about.
cudaError_t request_symbol(const char* name, const void* symbol, size_t offset, void* to,
                           const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
                           bool async) {
  return call(name, async ? kPlain : kUnsafe, [&] {
    u64 address = 0, size = 0;
    int error = 0;
    if (!find_variable(symbol, current_device(), &address, &size, &error))
      return cudaErrorInvalidSymbol;
    if (error) return cudaError_t(error);
    if (offset > size || bytes > size - offset) {
      note(std::string(name) + ": " + std::to_string(bytes) + " bytes at " +
           std::to_string(offset) + " of a variable of " + std::to_string(size));
      return cudaErrorInvalidValue;
    }
    void* place = pointer_to(address + offset);
    return copy({name, line(to ? to : place, from ? from : place, bytes), kind, stream, async});
  });
}

}  // namespace

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return request({"cudaMemcpy", line(to, from, bytes), kind});
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return request({"cudaMemcpyAsync", line(to, from, bytes), kind, stream, true});
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return request({"cudaMemcpy2D", rows(to, to_pitch, from, from_pitch, width, height), kind});
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return request({"cudaMemcpy2DAsync", rows(to, to_pitch, from, from_pitch, width, height), kind,
                  stream, true});
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  return request_3d("cudaMemcpy3D", p, nullptr, false);
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return request_3d("cudaMemcpy3DAsync", p, stream, true);
}

// --- between devices: the pointers say which ---
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  return request({"cudaMemcpyPeer", line(to, from, bytes), cudaMemcpyDeviceToDevice});
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  return request(
      {"cudaMemcpyPeerAsync", line(to, from, bytes), cudaMemcpyDeviceToDevice, stream, true});
}

cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* sizes,
                                 size_t count, cudaMemcpyAttributes*, size_t*, size_t,
                                 cudaStream_t stream) {
  return call("cudaMemcpyBatchAsync", [&] {
    if (!to || !from || !sizes || !stream) return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      const cudaError_t e = copy({"cudaMemcpyBatchAsync", line(to[i], from[i], sizes[i]),
                                  cudaMemcpyDefault, stream, true});
      if (e != cudaSuccess) return e;
    }
    return cudaSuccess;
  });
}

// --- variables ---
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return request_symbol("cudaMemcpyToSymbol", symbol, offset, nullptr, from, bytes, kind, nullptr,
                        false);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return request_symbol("cudaMemcpyFromSymbol", symbol, offset, to, nullptr, bytes, kind, nullptr,
                        false);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return request_symbol("cudaMemcpyToSymbolAsync", symbol, offset, nullptr, from, bytes, kind,
                        stream, true);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return request_symbol("cudaMemcpyFromSymbolAsync", symbol, offset, to, nullptr, bytes, kind,
                        stream, true);
}
cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return call("cudaGetSymbolAddress", [&] {
    u64 address = 0, size = 0;
    int error = 0;
    if (!pointer) return cudaErrorInvalidValue;
    if (!find_variable(symbol, current_device(), &address, &size, &error))
      return cudaErrorInvalidSymbol;
    *pointer = pointer_to(address);
    return cudaError_t(error);
  });
}
cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  return call("cudaGetSymbolSize", [&] {
    u64 address = 0, size = 0;
    int error = 0;
    if (!bytes) return cudaErrorInvalidValue;
    if (!find_variable(symbol, current_device(), &address, &size, &error))
      return cudaErrorInvalidSymbol;
    *bytes = size;
    return cudaError_t(error);
  });
}

// --- fills ---
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return request_fill({"cudaMemset", line(to, nullptr, bytes), u8(value)});
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return request_fill({"cudaMemsetAsync", line(to, nullptr, bytes), u8(value), 1, stream, true});
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return request_fill({"cudaMemset2D", rows(to, pitch, nullptr, 0, width, height), u8(value)});
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return request_fill({"cudaMemset2DAsync", rows(to, pitch, nullptr, 0, width, height), u8(value),
                       1, stream, true});
}
cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return request_fill({"cudaMemset3D", box(to, extent), u8(value)});
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent,
                              cudaStream_t stream) {
  return request_fill({"cudaMemset3DAsync", box(to, extent), u8(value), 1, stream, true});
}
