// Errors and versions.
#include "api/api.h"

using namespace emu;

cudaError_t cudaGetLastError() {
  if (is_forked_child()) return cudaErrorInitializationError;
  const Locked lock;
  const int code = take_last_error();
  if (code == 0 && device_count() > 0) return cudaError_t(device_error(current_device()));
  return cudaError_t(code);
}
cudaError_t cudaPeekAtLastError() {
  const Locked lock;
  const int code = peek_last_error();
  if (code == 0 && device_count() > 0) return cudaError_t(device_error(current_device()));
  return cudaError_t(code);
}
const char* cudaGetErrorName(cudaError_t error) {
  const char* name = error_name(error);
  return name ? name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const char* text = error_text(error);
  return text ? text : "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (!version) return cudaErrorInvalidValue;
  *version = device_count() ? CUDART_VERSION : 0;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  if (!version) return cudaErrorInvalidValue;
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}
// There is no driver below this runtime.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  if (!symbol || !function) return cudaErrorInvalidValue;
  *function = nullptr;
  if (status) *status = cudaDriverEntryPointSymbolNotFound;
  note(std::string("cudaGetDriverEntryPoint(\"") + symbol + "\"): there is no driver API");
  return cudaSuccess;
}

// Of cuda_profiler_api.h.
extern "C" __attribute__((visibility("default"))) cudaError_t cudaProfilerStart() {
  return cudaSuccess;
}
extern "C" __attribute__((visibility("default"))) cudaError_t cudaProfilerStop() {
  return cudaSuccess;
}
