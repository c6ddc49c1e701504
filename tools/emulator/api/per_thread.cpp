// Entry points of programs compiled with --default-stream per-thread: where no stream is named, the
// thread's own is meant.
#include "api/api.h"

// cudaGetDriverEntryPoint is deprecated, and programs call it all the same.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

cudaStream_t own(cudaStream_t stream) { return stream ? stream : cudaStreamPerThread; }

}  // namespace

#define PT(name, suffix, parameters, ...)                                                 \
  extern "C" __attribute__((visibility("default"))) cudaError_t name##suffix parameters { \
    return name(__VA_ARGS__);                                                             \
  }
// A synchronous call is the asynchronous one and a wait, or `name` where the two differ by more.
#define PTDS(name, parameters, ...)                                                      \
  extern "C" __attribute__((visibility("default"))) cudaError_t name##_ptds parameters { \
    const cudaError_t e = name##Async(__VA_ARGS__, cudaStreamPerThread);                 \
    return e == cudaSuccess ? cudaStreamSynchronize(cudaStreamPerThread) : e;            \
  }

// clang-format off
PTDS(cudaMemcpy, (void* to, const void* from, size_t n, cudaMemcpyKind kind), to, from, n, kind)
PTDS(cudaMemcpy2D, (void* to, size_t tp, const void* from, size_t fp, size_t w, size_t h,
     cudaMemcpyKind kind), to, tp, from, fp, w, h, kind)
PTDS(cudaMemcpy3D, (const cudaMemcpy3DParms* p), p)
PTDS(cudaMemcpyToSymbol, (const void* symbol, const void* from, size_t n, size_t offset,
     cudaMemcpyKind kind), symbol, from, n, offset, kind)
PTDS(cudaMemcpyFromSymbol, (void* to, const void* symbol, size_t n, size_t offset,
     cudaMemcpyKind kind), to, symbol, n, offset, kind)
PTDS(cudaMemset, (void* to, int value, size_t n), to, value, n)
PTDS(cudaMemset2D, (void* to, size_t pitch, int value, size_t w, size_t h), to, pitch, value, w, h)
PTDS(cudaMemset3D, (cudaPitchedPtr to, int value, cudaExtent extent), to, value, extent)

PT(cudaMemcpyAsync, _ptsz, (void* to, const void* from, size_t n, cudaMemcpyKind kind,
   cudaStream_t s), to, from, n, kind, own(s))
PT(cudaMemcpy2DAsync, _ptsz, (void* to, size_t tp, const void* from, size_t fp, size_t w, size_t h,
   cudaMemcpyKind kind, cudaStream_t s), to, tp, from, fp, w, h, kind, own(s))
PT(cudaMemcpy3DAsync, _ptsz, (const cudaMemcpy3DParms* p, cudaStream_t s), p, own(s))
PT(cudaMemcpyToSymbolAsync, _ptsz, (const void* symbol, const void* from, size_t n, size_t offset,
   cudaMemcpyKind kind, cudaStream_t s), symbol, from, n, offset, kind, own(s))
PT(cudaMemcpyFromSymbolAsync, _ptsz, (void* to, const void* symbol, size_t n, size_t offset,
   cudaMemcpyKind kind, cudaStream_t s), to, symbol, n, offset, kind, own(s))
PT(cudaMemcpyBatchAsync, _ptsz, (void* const* to, const void* const* from, const size_t* sizes,
   size_t n, cudaMemcpyAttributes* a, size_t* i, size_t m, cudaStream_t s),
   to, from, sizes, n, a, i, m, own(s))
PT(cudaMemsetAsync, _ptsz, (void* to, int value, size_t n, cudaStream_t s), to, value, n, own(s))
PT(cudaMemset2DAsync, _ptsz, (void* to, size_t pitch, int value, size_t w, size_t h,
   cudaStream_t s), to, pitch, value, w, h, own(s))
PT(cudaMemset3DAsync, _ptsz, (cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t s),
   to, value, extent, own(s))
PT(cudaMemPrefetchAsync, _ptsz, (const void* p, size_t n, cudaMemLocation at, unsigned flags,
   cudaStream_t s), p, n, at, flags, own(s))
PT(cudaMallocAsync, _ptsz, (void** p, size_t n, cudaStream_t s), p, n, own(s))
PT(cudaMallocFromPoolAsync, _ptsz, (void** p, size_t n, cudaMemPool_t pool, cudaStream_t s),
   p, n, pool, own(s))
PT(cudaFreeAsync, _ptsz, (void* p, cudaStream_t s), p, own(s))

PT(cudaStreamQuery, _ptsz, (cudaStream_t s), own(s))
PT(cudaStreamSynchronize, _ptsz, (cudaStream_t s), own(s))
PT(cudaStreamWaitEvent, _ptsz, (cudaStream_t s, cudaEvent_t e, unsigned flags), own(s), e, flags)
PT(cudaStreamAddCallback, _ptsz, (cudaStream_t s, cudaStreamCallback_t f, void* data,
   unsigned flags), own(s), f, data, flags)
PT(cudaStreamAttachMemAsync, _ptsz, (cudaStream_t s, void* p, size_t n, unsigned flags),
   own(s), p, n, flags)
PT(cudaStreamGetPriority, _ptsz, (cudaStream_t s, int* x), own(s), x)
PT(cudaStreamGetFlags, _ptsz, (cudaStream_t s, unsigned* x), own(s), x)
PT(cudaStreamGetId, _ptsz, (cudaStream_t s, unsigned long long* x), own(s), x)
PT(cudaStreamGetDevice, _ptsz, (cudaStream_t s, int* x), own(s), x)
PT(cudaStreamCopyAttributes, _ptsz, (cudaStream_t to, cudaStream_t from), own(to), own(from))
PT(cudaStreamGetAttribute, _ptsz, (cudaStream_t s, cudaStreamAttrID id, cudaStreamAttrValue* x),
   own(s), id, x)
PT(cudaStreamSetAttribute, _ptsz, (cudaStream_t s, cudaStreamAttrID id,
   const cudaStreamAttrValue* x), own(s), id, x)
PT(cudaEventRecord, _ptsz, (cudaEvent_t e, cudaStream_t s), e, own(s))
PT(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t e, cudaStream_t s, unsigned flags),
   e, own(s), flags)

PT(cudaLaunchKernel, _ptsz, (const void* f, dim3 grid, dim3 block, void** args, size_t shared,
   cudaStream_t s), f, grid, block, args, shared, own(s))
PT(cudaLaunchCooperativeKernel, _ptsz, (const void* f, dim3 grid, dim3 block, void** args,
   size_t shared, cudaStream_t s), f, grid, block, args, shared, own(s))
PT(cudaLaunchHostFunc, _ptsz, (cudaStream_t s, cudaHostFn_t f, void* data), own(s), f, data)

PT(cudaStreamBeginCapture, _ptsz, (cudaStream_t s, cudaStreamCaptureMode mode), own(s), mode)
PT(cudaStreamBeginCaptureToGraph, _ptsz, (cudaStream_t s, cudaGraph_t g, const cudaGraphNode_t* d,
   const cudaGraphEdgeData* data, size_t n, cudaStreamCaptureMode mode),
   own(s), g, d, data, n, mode)
PT(cudaStreamEndCapture, _ptsz, (cudaStream_t s, cudaGraph_t* g), own(s), g)
PT(cudaStreamIsCapturing, _ptsz, (cudaStream_t s, cudaStreamCaptureStatus* x), own(s), x)
PT(cudaStreamGetCaptureInfo, _ptsz, (cudaStream_t s, cudaStreamCaptureStatus* status,
   unsigned long long* id, cudaGraph_t* g, const cudaGraphNode_t** d, const cudaGraphEdgeData** data,
   size_t* n), own(s), status, id, g, d, data, n)
PT(cudaStreamUpdateCaptureDependencies, _ptsz, (cudaStream_t s, cudaGraphNode_t* d,
   const cudaGraphEdgeData* data, size_t n, unsigned flags), own(s), d, data, n, flags)
PT(cudaGraphLaunch, _ptsz, (cudaGraphExec_t g, cudaStream_t s), g, own(s))
PT(cudaGraphUpload, _ptsz, (cudaGraphExec_t g, cudaStream_t s), g, own(s))
PT(cudaGraphInstantiateWithParams, _ptsz, (cudaGraphExec_t* e, cudaGraph_t g,
   cudaGraphInstantiateParams* p), e, g, p)
PT(cudaGetDriverEntryPoint, _ptsz, (const char* symbol, void** f, unsigned long long flags,
   cudaDriverEntryPointQueryResult* status), symbol, f, flags, status)
PT(cudaGetDriverEntryPointByVersion, _ptsz, (const char* symbol, void** f, unsigned version,
   unsigned long long flags, cudaDriverEntryPointQueryResult* status),
   symbol, f, version, flags, status)
// clang-format on

extern "C" __attribute__((visibility("default"))) cudaError_t cudaLaunchKernelExC_ptsz(
    const cudaLaunchConfig_t* config, const void* kernel, void** args) {
  if (!config) return cudaLaunchKernelExC(config, kernel, args);
  cudaLaunchConfig_t c = *config;
  c.stream = own(c.stream);
  return cudaLaunchKernelExC(&c, kernel, args);
}
