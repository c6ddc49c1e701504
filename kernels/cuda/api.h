// The CUDA runtime as a table of functions: what the cuda device's host side calls.
//
// Only kernels/cuda/runtime.cpp includes CUDA's headers and fills the table in; all else about the
// device (allocator, streams, copies, error text) is plain C++ that is built and tested on machines
// without a toolkit, over a fake. Codes are cudaError_t, streams and events CUDA's handles.
#pragma once
#include <atomic>
#include <string>

#include "warptape/core/device.h"

namespace wt {

struct Launch;  // kernels/contract.h
struct DeviceLimits;

// The cudaError_t values that are treated apart; kernels/cuda/runtime.cpp checks them.
enum CudaCode : int {
  kCudaSuccess = 0,
  kCudaOutOfMemory = 2,
  kCudaUnloading = 4,  // the process is ending: destructors ignore it
  kCudaStubLibrary = 34,
  kCudaInsufficientDriver = 35,
  kCudaNoDevice = 100,
  kCudaInvalidImage = 200,
  kCudaNoKernelImage = 209,
  kCudaEcc = 214,
  kCudaInvalidPtx = 218,
  kCudaNvlink = 220,
  kCudaNotReady = 600,
  kCudaIllegalAddress = 700,
  kCudaLaunchTimeout = 702,
  kCudaContextDestroyed = 709,
  kCudaAssert = 710,
  kCudaHardwareStack = 714,
  kCudaIllegalInstruction = 715,
  kCudaMisalignedAddress = 716,
  kCudaInvalidAddressSpace = 717,
  kCudaInvalidPc = 718,
  kCudaLaunchFailure = 719,
  kCudaSystemNotReady = 802,
  kCudaDriverMismatch = 803,
  kCudaCaptureUnsupported = 900,
  kCudaCaptureInvalidated = 901,
};
// Arguments of the driver's cuTensorMapEncodeTiled; the same.
enum CudaTensorMap : int {
  kTensorNoInterleave = 0,
  kTensorNoSwizzle = 0,
  kTensorZeros = 0,
  kTensorL2Lines256 = 3,
  kTensorSwizzle128 = 3,
  kTensorFloat16 = 6,
  kTensorFloat32 = 7,
  kTensorBfloat16 = 9,
};
enum class CudaCopy : u8 { to_device, to_host, within, any };

struct CudaApi {
  int (*driver_version)(int*);
  int (*runtime_version)(int*);
  int (*device_count)(int*);
  int (*properties)(cuda::Properties*, int index);  // all but free_bytes, driver, runtime
  int (*memory_info)(size_t* free, size_t* total);  // of the current device
  int (*set_device)(int);
  int (*current_device)(int*);
  int (*device_synchronize)();
  int (*take_memory)(void**, size_t);  // cudaMalloc
  int (*free_memory)(void*);
  int (*take_host)(void**, size_t);  // page-locked, for every device
  int (*free_host)(void*);
  int (*copy)(void* to, const void* from, size_t, CudaCopy, void* stream);  // does not wait
  int (*fill)(void* to, int byte, size_t, void* stream);
  int (*make_stream)(void**);  // not ordered with the default stream
  int (*free_stream)(void*);
  int (*query_stream)(void*);
  int (*wait_stream)(void*);
  int (*stream_after)(void* stream, void* event);
  int (*make_event)(void**, bool timing);
  int (*free_event)(void*);
  int (*record)(void* event, void* stream);
  int (*query_event)(void*);
  int (*wait_event)(void*);
  int (*elapsed)(float* ms, void* from, void* to);
  // Graphs. From begin_capture on, work of this thread on the stream is recorded, and calls of this
  // thread that a capture forbids fail and spoil it; other threads go on.
  int (*begin_capture)(void* stream);
  int (*end_capture)(void* stream, void** graph);  // a cudaGraph_t; null after an error
  int (*instantiate)(void** exec, void* graph);
  int (*graph_size)(void* graph, size_t* nodes);
  int (*capture_size)(void* stream, size_t* nodes);  // of the capture that is under way
  int (*free_graph)(void* graph);
  int (*launch_graph)(void* exec, void* stream);
  int (*free_exec)(void* exec);
  // The kernel may be launched with so much dynamic shared memory on the current device.
  int (*allow_shared)(const void* kernel, int bytes);
  // Code that was compiled while the program runs (kernels/jit/): machine code, or PTX with its
  // end. Null: the runtime is older than 12.8 and has no such calls. Libraries are never unloaded.
  int (*load_code)(void** library, const void* code);
  int (*find_kernel)(void** kernel, void* library, const char* name);
  int (*parameter)(const void* kernel, size_t i, size_t* bytes);  // an error: it has no such one
  int (*launch_kernel)(const void* kernel, const unsigned (&blocks)[3],
                       const unsigned (&threads)[3], void** arguments, size_t shared, void* stream);
  // A function of libcuda by name, which is not linked; null where the driver has none.
  void* (*driver_function)(const char* name);
  int (*last_error)();  // reads and clears the thread's last error
  const char* (*error_text)(int);
};

// The table in use: the toolkit's, a test's, or null in a build without cuda.
const CudaApi* cuda_api();
// kernels/dispatch/all.cpp, which knows what is built. Null: no cuda.
const CudaApi* built_cuda_api();

// Throws DeviceError for any code but success, naming the call, the operator and the device. An
// error after which CUDA's context is unusable marks the device dead: the first one is remembered
// and every later call says so.
[[noreturn]] WT_COLD void cuda_failed(int code, const char* call, int device);
inline void cuda_check(int code, const char* call, int device) {
  if (code != kCudaSuccess) [[unlikely]]
    cuda_failed(code, call, device);
}
// Throws when the device is dead; else makes it the thread's current one.
void enter_cuda(int device);
// The device that this thread's calls go to: what it last entered, or CUDA's answer before that.
int current_cuda_device();
// Behind run(): see detail::prepare_launch(). Costs one comparison where the device is current.
void prepare_cuda_launch(const void* args, size_t bytes, const Launch& l);
// Behind allow_dynamic_shared(): the first error, which is not left for the next launch to find.
int allow_cuda_shared(const void* kernel, size_t bytes);
// Of a device that can be used; asked of CUDA once.
const DeviceLimits& cuda_limits(int device);
// Behind launch_failed(): a launch was refused, or met the error of an earlier kernel.
[[noreturn]] void cuda_launch_failed(const std::string& kernel, const char* reason, int code);
// The context of this code's kind cannot be used any more.
bool is_sticky(int code);
// True after a sticky error on the device.
bool cuda_is_dead(int device);

// Why no cuda device can be used, or empty. Pure: what the driver answered, and the value of
// CUDA_VISIBLE_DEVICES (null: not set).
std::string explain_cuda_count(const CudaApi& api, int code, int count, const char* visible);

namespace detail {
// For tests: everything about the cuda device (table, devices found, memory, dead marks) is set
// aside and made anew over `api`, until restored.
struct CudaState;
CudaState* replace_cuda_state(const CudaApi* api);
void restore_cuda_state(CudaState* before);
}  // namespace detail

}  // namespace wt
