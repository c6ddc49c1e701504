// For tests of the emulated runtime: ordinary programs of CUDA's C interface, linked with the
// stand-in. They begin with WT_EMU_CHECK=report and two devices, set before the first call
// (setup.cpp).
#pragma once
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "../../support/catch.h"
#include "api/enqueue.h"

#define OK(call)                              \
  do {                                        \
    const cudaError_t error_of_call = (call); \
    INFO(#call);                              \
    INFO(cudaGetErrorName(error_of_call));    \
    REQUIRE(error_of_call == cudaSuccess);    \
  } while (false)
// The call fails with this error, which is the thread's last one, too.
#define FAILS(call, code)                     \
  do {                                        \
    const cudaError_t error_of_call = (call); \
    INFO(#call);                              \
    INFO(cudaGetErrorName(error_of_call));    \
    CHECK(error_of_call == (code));           \
    CHECK(cudaGetLastError() == (code));      \
  } while (false)

// Findings since it was made; they are forgotten with it.
struct Findings {
  Findings() { __wt_emu_forget_findings(); }
  ~Findings() { __wt_emu_forget_findings(); }
  uint64_t count() const { return __wt_emu_findings(); }
};

struct Stream {
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    OK(cudaStreamCreateWithFlags(&handle, flags));
  }
  ~Stream() { cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  operator cudaStream_t() const { return handle; }
  cudaStream_t handle = nullptr;
};
struct Event {
  explicit Event(unsigned flags = cudaEventDefault) {
    OK(cudaEventCreateWithFlags(&handle, flags));
  }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  operator cudaEvent_t() const { return handle; }
  cudaEvent_t handle = nullptr;
};

struct DeviceBytes {
  explicit DeviceBytes(size_t n) : size(n) {
    void* p = nullptr;
    OK(cudaMalloc(&p, n));
    data = static_cast<unsigned char*>(p);
  }
  ~DeviceBytes() { cudaFree(data); }
  DeviceBytes(const DeviceBytes&) = delete;
  operator unsigned char*() const { return data; }
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> bytes(size);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(bytes.data(), data, size, cudaMemcpyDeviceToHost));
    return bytes;
  }
  unsigned char* data = nullptr;
  size_t size;
};
struct PinnedBytes {
  explicit PinnedBytes(size_t n) {
    void* p = nullptr;
    OK(cudaMallocHost(&p, n));
    data = static_cast<unsigned char*>(p);
    std::memset(data, 0, n);
  }
  ~PinnedBytes() { cudaFreeHost(data); }
  PinnedBytes(const PinnedBytes&) = delete;
  operator unsigned char*() const { return data; }
  unsigned char* data = nullptr;
};
