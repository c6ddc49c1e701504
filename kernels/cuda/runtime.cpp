// The toolkit's runtime behind CudaApi. Links libcudart, never libcuda: without a driver the
// program starts, and these calls return errors.
#include <cuda.h>  // for the values of enumerations
#include <cuda_runtime_api.h>

#include "warptape/kernels/cuda/api.h"

namespace wt {
namespace {

static_assert(int(kCudaSuccess) == int(cudaSuccess));
static_assert(int(kCudaOutOfMemory) == int(cudaErrorMemoryAllocation));
static_assert(int(kCudaUnloading) == int(cudaErrorCudartUnloading));
static_assert(int(kCudaStubLibrary) == int(cudaErrorStubLibrary));
static_assert(int(kCudaInsufficientDriver) == int(cudaErrorInsufficientDriver));
static_assert(int(kCudaNoDevice) == int(cudaErrorNoDevice));
static_assert(int(kCudaInvalidImage) == int(cudaErrorInvalidKernelImage));
static_assert(int(kCudaInvalidPtx) == int(cudaErrorInvalidPtx));
static_assert(int(kCudaNoKernelImage) == int(cudaErrorNoKernelImageForDevice));
static_assert(int(kCudaEcc) == int(cudaErrorECCUncorrectable));
static_assert(int(kCudaNvlink) == int(cudaErrorNvlinkUncorrectable));
static_assert(int(kCudaNotReady) == int(cudaErrorNotReady));
static_assert(int(kCudaIllegalAddress) == int(cudaErrorIllegalAddress));
static_assert(int(kCudaLaunchTimeout) == int(cudaErrorLaunchTimeout));
static_assert(int(kCudaContextDestroyed) == int(cudaErrorContextIsDestroyed));
static_assert(int(kCudaAssert) == int(cudaErrorAssert));
static_assert(int(kCudaHardwareStack) == int(cudaErrorHardwareStackError));
static_assert(int(kCudaIllegalInstruction) == int(cudaErrorIllegalInstruction));
static_assert(int(kCudaMisalignedAddress) == int(cudaErrorMisalignedAddress));
static_assert(int(kCudaInvalidAddressSpace) == int(cudaErrorInvalidAddressSpace));
static_assert(int(kCudaInvalidPc) == int(cudaErrorInvalidPc));
static_assert(int(kCudaLaunchFailure) == int(cudaErrorLaunchFailure));
static_assert(int(kCudaSystemNotReady) == int(cudaErrorSystemNotReady));
static_assert(int(kCudaDriverMismatch) == int(cudaErrorSystemDriverMismatch));

static_assert(int(kCudaCaptureUnsupported) == int(cudaErrorStreamCaptureUnsupported));
static_assert(int(kCudaCaptureInvalidated) == int(cudaErrorStreamCaptureInvalidated));

static_assert(int(kTensorNoInterleave) == int(CU_TENSOR_MAP_INTERLEAVE_NONE));
static_assert(int(kTensorNoSwizzle) == int(CU_TENSOR_MAP_SWIZZLE_NONE));
static_assert(int(kTensorZeros) == int(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
static_assert(int(kTensorL2Lines256) == int(CU_TENSOR_MAP_L2_PROMOTION_L2_256B));
static_assert(int(kTensorSwizzle128) == int(CU_TENSOR_MAP_SWIZZLE_128B));
static_assert(int(kTensorFloat16) == int(CU_TENSOR_MAP_DATA_TYPE_FLOAT16));
static_assert(int(kTensorFloat32) == int(CU_TENSOR_MAP_DATA_TYPE_FLOAT32));
static_assert(int(kTensorBfloat16) == int(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16));
static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) <= 128);

cudaStream_t stream(void* s) { return static_cast<cudaStream_t>(s); }
cudaEvent_t event(void* e) { return static_cast<cudaEvent_t>(e); }
cudaGraph_t graph(void* g) { return static_cast<cudaGraph_t>(g); }
cudaGraphExec_t exec(void* e) { return static_cast<cudaGraphExec_t>(e); }

int properties(cuda::Properties* p, int index) {
  cudaDeviceProp d;
  if (const cudaError_t e = cudaGetDeviceProperties(&d, index); e != cudaSuccess) return e;
  p->name = d.name;
  p->major = d.major;
  p->minor = d.minor;
  p->multiprocessors = d.multiProcessorCount;
  p->memory_bytes = i64(d.totalGlobalMem);
  p->l2_bytes = d.l2CacheSize;
  p->shared_bytes = i64(d.sharedMemPerBlockOptin);
  return cudaSuccess;
}

void* driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  constexpr unsigned kWanted = 12000;  // as of CUDA 12.0, which is where the newest of them came
  const cudaError_t e =
      cudaGetDriverEntryPointByVersion(name, &found, kWanted, cudaEnableDefault, &result);
#else
  const cudaError_t e = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (e != cudaSuccess) cudaGetLastError();  // a refused question is no launch's error
  return e == cudaSuccess && result == cudaDriverEntryPointSuccess ? found : nullptr;
}

int copy(void* to, const void* from, size_t bytes, CudaCopy kind, void* s) {
  static constexpr cudaMemcpyKind kKinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                              cudaMemcpyDeviceToDevice, cudaMemcpyDefault};
  return cudaMemcpyAsync(to, from, bytes, kKinds[int(kind)], stream(s));
}

int capture_size(void* s, size_t* nodes) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t made = nullptr;
#if CUDART_VERSION >= 13000
  const cudaError_t e = cudaStreamGetCaptureInfo(stream(s), &status, nullptr, &made);
#else
  const cudaError_t e = cudaStreamGetCaptureInfo_v2(stream(s), &status, nullptr, &made);
#endif
  if (e != cudaSuccess) return e;
  return made ? cudaGraphGetNodes(made, nullptr, nodes) : cudaErrorStreamCaptureInvalidated;
}

#if CUDART_VERSION >= 12080
int load_code(void** library, const void* code) {
  return cudaLibraryLoadData(reinterpret_cast<cudaLibrary_t*>(library), code, nullptr, nullptr, 0,
                             nullptr, nullptr, 0);
}
int find_kernel(void** kernel, void* library, const char* name) {
  return cudaLibraryGetKernel(reinterpret_cast<cudaKernel_t*>(kernel),
                              static_cast<cudaLibrary_t>(library), name);
}
int parameter(const void* kernel, size_t i, size_t* bytes) {
  size_t offset = 0;
  return cudaFuncGetParamInfo(kernel, i, &offset, bytes);
}
// A handle of cudaLibraryGetKernel() is launched as a function is.
int launch_kernel(const void* kernel, const unsigned (&blocks)[3], const unsigned (&threads)[3],
                  void** arguments, size_t shared, void* s) {
  return cudaLaunchKernel(kernel, dim3(blocks[0], blocks[1], blocks[2]),
                          dim3(threads[0], threads[1], threads[2]), arguments, shared, stream(s));
}
#else
constexpr decltype(CudaApi::load_code) load_code = nullptr;
constexpr decltype(CudaApi::find_kernel) find_kernel = nullptr;
constexpr decltype(CudaApi::parameter) parameter = nullptr;
constexpr decltype(CudaApi::launch_kernel) launch_kernel = nullptr;
#endif

constexpr CudaApi kApi = {
    .driver_version = [](int* v) { return int(cudaDriverGetVersion(v)); },
    .runtime_version = [](int* v) { return int(cudaRuntimeGetVersion(v)); },
    .device_count = [](int* n) { return int(cudaGetDeviceCount(n)); },
    .properties = properties,
    .memory_info = [](size_t* free, size_t* total) { return int(cudaMemGetInfo(free, total)); },
    .set_device = [](int i) { return int(cudaSetDevice(i)); },
    .current_device = [](int* i) { return int(cudaGetDevice(i)); },
    .device_synchronize = [] { return int(cudaDeviceSynchronize()); },
    .take_memory = [](void** p, size_t bytes) { return int(cudaMalloc(p, bytes)); },
    .free_memory = [](void* p) { return int(cudaFree(p)); },
    .take_host = [](void** p,
                    size_t bytes) { return int(cudaHostAlloc(p, bytes, cudaHostAllocPortable)); },
    .free_host = [](void* p) { return int(cudaFreeHost(p)); },
    .copy = copy,
    .fill = [](void* p, int byte, size_t bytes,
               void* s) { return int(cudaMemsetAsync(p, byte, bytes, stream(s))); },
    .make_stream =
        [](void** s) {
          return int(
              cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(s), cudaStreamNonBlocking));
        },
    .free_stream = [](void* s) { return int(cudaStreamDestroy(stream(s))); },
    .query_stream = [](void* s) { return int(cudaStreamQuery(stream(s))); },
    .wait_stream = [](void* s) { return int(cudaStreamSynchronize(stream(s))); },
    .stream_after = [](void* s,
                       void* e) { return int(cudaStreamWaitEvent(stream(s), event(e), 0)); },
    .make_event =
        [](void** e, bool timing) {
          return int(cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(e),
                                              timing ? cudaEventDefault : cudaEventDisableTiming));
        },
    .free_event = [](void* e) { return int(cudaEventDestroy(event(e))); },
    .record = [](void* e, void* s) { return int(cudaEventRecord(event(e), stream(s))); },
    .query_event = [](void* e) { return int(cudaEventQuery(event(e))); },
    .wait_event = [](void* e) { return int(cudaEventSynchronize(event(e))); },
    .elapsed = [](float* ms, void* from,
                  void* to) { return int(cudaEventElapsedTime(ms, event(from), event(to))); },
    .begin_capture =
        [](void* s) {
          return int(cudaStreamBeginCapture(stream(s), cudaStreamCaptureModeThreadLocal));
        },
    .end_capture =
        [](void* s, void** g) {
          return int(cudaStreamEndCapture(stream(s), reinterpret_cast<cudaGraph_t*>(g)));
        },
    .instantiate =
        [](void** e, void* g) {
          return int(
              cudaGraphInstantiateWithFlags(reinterpret_cast<cudaGraphExec_t*>(e), graph(g), 0));
        },
    .graph_size = [](void* g, size_t* n) { return int(cudaGraphGetNodes(graph(g), nullptr, n)); },
    .capture_size = capture_size,
    .free_graph = [](void* g) { return int(cudaGraphDestroy(graph(g))); },
    .launch_graph = [](void* e, void* s) { return int(cudaGraphLaunch(exec(e), stream(s))); },
    .free_exec = [](void* e) { return int(cudaGraphExecDestroy(exec(e))); },
    .allow_shared =
        [](const void* kernel, int bytes) {
          return int(
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
        },
    .load_code = load_code,
    .find_kernel = find_kernel,
    .parameter = parameter,
    .launch_kernel = launch_kernel,
    .driver_function = driver_function,
    .last_error = [] { return int(cudaGetLastError()); },
    .error_text = [](int code) { return cudaGetErrorString(cudaError_t(code)); },
};

}  // namespace

const CudaApi* built_cuda_api() { return &kApi; }

}  // namespace wt
