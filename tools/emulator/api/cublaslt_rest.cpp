// The small print of cuBLASLt: versions, names, a log that stays empty; and the entry points that
// the stand-in lacks, which end the program with their name.
#include <cstdio>
#include <cstdlib>

#include "api/cublaslt_types.h"

namespace {

struct StatusName {
  cublasStatus_t status;
  const char *name, *text;
};
constexpr StatusName kNames[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED",
     "the library was not initialized"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE",
     "an unsupported value or parameter was passed to the function"},
    {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH",
     "the function requires a feature absent from the device architecture"},
    {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR",
     "an access to GPU memory space failed"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED",
     "the GPU program failed to execute"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED",
     "the functionality requested is not supported"},
    {CUBLAS_STATUS_LICENSE_ERROR, "CUBLAS_STATUS_LICENSE_ERROR", "the license check failed"},
};

const StatusName* find(cublasStatus_t s) {
  for (const StatusName& n : kNames)
    if (n.status == s) return &n;
  return nullptr;
}

[[noreturn]] void missing(const char* name) {
  std::fprintf(stderr, "emulate: %s is not there yet\n", name);
  std::abort();
}

}  // namespace

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t s) {
  const StatusName* n = find(s);
  return n ? n->name : "unknown";
}
const char* cublasLtGetStatusString(cublasStatus_t s) {
  const StatusName* n = find(s);
  return n ? n->text : "unknown";
}
size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }
cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int* value) {
  const int parts[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
  if (!value || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUBLAS_STATUS_INVALID_VALUE;
  *value = parts[type];
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtHeuristicsCacheGetCapacity(size_t* capacity) {
  if (!capacity) return CUBLAS_STATUS_INVALID_VALUE;
  *capacity = 0;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtHeuristicsCacheSetCapacity(size_t) { return CUBLAS_STATUS_SUCCESS; }
unsigned cublasLtDisableCpuInstructionsSetMask(unsigned) { return 0; }
cublasStatus_t cublasLtLoggerSetCallback(cublasLtLoggerCallback_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtLoggerSetFile(FILE*) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtLoggerOpenFile(const char*) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtLoggerSetLevel(int) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtLoggerSetMask(int) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtLoggerForceDisable() { return CUBLAS_STATUS_SUCCESS; }

#define MISSING(name, ...) \
  cublasStatus_t name(__VA_ARGS__) { missing(#name); }
MISSING(cublasLtMatrixTransform, cublasLtHandle_t, cublasLtMatrixTransformDesc_t, const void*,
        const void*, cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t,
        void*, cublasLtMatrixLayout_t, cudaStream_t)
MISSING(cublasLtMatrixTransformDescInit_internal, cublasLtMatrixTransformDesc_t, size_t,
        cudaDataType)
MISSING(cublasLtMatrixTransformDescCreate, cublasLtMatrixTransformDesc_t*, cudaDataType)
MISSING(cublasLtMatrixTransformDescDestroy, cublasLtMatrixTransformDesc_t)
MISSING(cublasLtMatrixTransformDescSetAttribute, cublasLtMatrixTransformDesc_t,
        cublasLtMatrixTransformDescAttributes_t, const void*, size_t)
MISSING(cublasLtMatrixTransformDescGetAttribute, cublasLtMatrixTransformDesc_t,
        cublasLtMatrixTransformDescAttributes_t, void*, size_t, size_t*)
MISSING(cublasLtEmulationDescInit_internal, cublasLtEmulationDesc_t, size_t)
MISSING(cublasLtEmulationDescCreate, cublasLtEmulationDesc_t*)
MISSING(cublasLtEmulationDescDestroy, cublasLtEmulationDesc_t)
MISSING(cublasLtEmulationDescSetAttribute, cublasLtEmulationDesc_t,
        cublasLtEmulationDescAttributes_t, const void*, size_t)
MISSING(cublasLtEmulationDescGetAttribute, cublasLtEmulationDesc_t,
        cublasLtEmulationDescAttributes_t, void*, size_t, size_t*)
MISSING(cublasLtMatmulAlgoGetIds, cublasLtHandle_t, cublasComputeType_t, cudaDataType_t,
        cudaDataType_t, cudaDataType_t, cudaDataType_t, cudaDataType_t, int, int[], int*)
MISSING(cublasLtMatmulAlgoInit, cublasLtHandle_t, cublasComputeType_t, cudaDataType_t,
        cudaDataType_t, cudaDataType_t, cudaDataType_t, cudaDataType_t, int, cublasLtMatmulAlgo_t*)
MISSING(cublasLtMatmulAlgoCapGetAttribute, const cublasLtMatmulAlgo_t*,
        cublasLtMatmulAlgoCapAttributes_t, void*, size_t, size_t*)
MISSING(cublasLtMatmulAlgoConfigSetAttribute, cublasLtMatmulAlgo_t*,
        cublasLtMatmulAlgoConfigAttributes_t, const void*, size_t)
MISSING(cublasLtMatmulAlgoConfigGetAttribute, const cublasLtMatmulAlgo_t*,
        cublasLtMatmulAlgoConfigAttributes_t, void*, size_t, size_t*)
#undef MISSING

}  // extern "C"
