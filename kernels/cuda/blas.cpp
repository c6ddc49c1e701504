#include "warptape/kernels/cuda/blas.h"

#include <memory>

#include "warptape/core/error.h"
#include "warptape/core/memory_footprint.h"
#include "warptape/kernels/cuda/api.h"
#include "warptape/kernels/cuda/device.h"
#include "warptape/kernels/cuda/handle.h"

namespace wt {
namespace {

#define WT_TEXT_OF(x) #x
#define WT_CUBLASLT_FILE(major) "libcublasLt.so." WT_TEXT_OF(major)
constexpr const char* kCublasLtRoots[] = {"CUDA_HOME", "CUDA_PATH"};
constexpr LibraryFolder kCublasLtFolders[] = {{nullptr, "/usr/local/cuda/lib64"},
                                              {nullptr, "/usr/local/cuda/lib"}};
// Descriptors are structs of the header's size: another major version's library is another one's.
constexpr LibrarySearch kCublasLtSearch = {
    WT_CUBLASLT_FILE(CUBLAS_VER_MAJOR),
    "WT_CUBLASLT",
    kCublasLtRoots,
    CUBLAS_VER_MAJOR < 13 ? "nvidia/cublas/lib" : "nvidia/cu13/lib",
    "it comes with a CUDA toolkit, or by pip install nvidia-cublas",
    {},
    kCublasLtFolders};

const char* take_functions(CublasLt& a, const LoadedLibrary& library, const LibraryLoader& loader) {
  LibraryFunctions must(library, loader);
  must.take(a.version, "cublasLtGetVersion");
  must.take(a.status_text, "cublasLtGetStatusString");
  must.take(a.create, "cublasLtCreate");
  must.take(a.destroy, "cublasLtDestroy");
  must.take(a.init_product, "cublasLtMatmulDescInit_internal");
  must.take(a.set_product, "cublasLtMatmulDescSetAttribute");
  must.take(a.init_layout, "cublasLtMatrixLayoutInit_internal");
  must.take(a.set_layout, "cublasLtMatrixLayoutSetAttribute");
  must.take(a.init_preference, "cublasLtMatmulPreferenceInit_internal");
  must.take(a.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  must.take(a.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  must.take(a.matmul, "cublasLtMatmul");
  return must.missing;
}

const CublasLtFound& found() {
  static const auto* real =  // outlives static destructors, as the library does
      new CublasLtFound(find_cublaslt(system_loader));
  return *real;
}

struct LtTraits {
  using Type = cublasLtHandle_t;
  static void destroy(Type h) noexcept { found().api->destroy(h); }
};
thread_local CudaHandle<LtTraits> handles[64];  // by device

}  // namespace

CublasLtFound find_cublaslt(const LibraryLoader& loader) {
  const LoadedLibrary library = load_library(kCublasLtSearch, loader);
  CublasLtFound result{.file = library.file, .why_not = library.why_not};
  if (!library.handle) return result;
  auto api = std::make_unique<CublasLt>();
  if (const char* missing = take_functions(*api, library, loader))
    result.why_not = str(library.file, " is no cuBLASLt: it lacks ", missing);
  else
    result.api = api.release();  // for the life of the process
  return result;
}

const char* cublaslt_why_not() { return found().api ? nullptr : found().why_not.c_str(); }

const CublasLt& cublaslt() {
  if (!found().api) throw NotAvailable("[cuda] no cuBLASLt: " + found().why_not);
  return *found().api;
}

std::string describe_cublaslt() {
  if (!found().api) return "not used: " + found().why_not;
  const size_t version = found().api->version();  // 130100 is 13.1.0
  return str(version / 10000, ".", version % 10000 / 100, ".", version % 100, ", ", found().file);
}

void cublas_check(cublasStatus_t status, const char* call, Device d) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  const std::string text = str(call, " on ", to_string(d), ": ", cublaslt().status_text(status));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH)
    throw NotAvailable(text);
  // A dead context shows up here as an internal error: the runtime knows the cause.
  if (const int code = cuda_api()->last_error(); code != kCudaSuccess)
    cuda_failed(code, call, d.index);
  throw DeviceError(text);
}

cublasLtHandle_t cublaslt_handle(Device d) {
  require_available(d);
  enter_cuda(d.index);
  CudaHandle<LtTraits>& h = handles[d.index];
  if (!h) {
    const memory::ExternalScope outside(d, "cuBLASLt");
    cublasLtHandle_t made = nullptr;
    cublas_check(cublaslt().create(&made), "cublasLtCreate", d);
    h = CudaHandle<LtTraits>(made);
  }
  return h.get();
}

}  // namespace wt
