// What nvcc's stubs register before main(). A handle is the module.
#include "api/api.h"
#include "device/modules.h"

using namespace emu;

#define STUB extern "C" __attribute__((visibility("default")))

namespace {

Module* module_of(void** handle) { return reinterpret_cast<Module*>(handle); }

}  // namespace

STUB void** __cudaRegisterFatBinary(void* wrapper) {
  const Locked lock;
  return reinterpret_cast<void**>(add_module(wrapper));
}
STUB void __cudaRegisterFatBinaryEnd(void**) {}
STUB void __cudaUnregisterFatBinary(void** handle) {
  const Locked lock;
  remove_module(module_of(handle));
}
STUB char __cudaInitModule(void** handle) {
  const Locked lock;
  if (device_count() > 0) start_managed(*module_of(handle));
  return 1;
}

STUB void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int,
                                 uint3*, uint3*, dim3*, dim3*, int*) {
  const Locked lock;
  add_function(module_of(handle), stub, name);
}
STUB void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t bytes,
                            int, int) {
  const Locked lock;
  add_variable(module_of(handle), {host, name, bytes});
}
STUB void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int,
                                   size_t bytes, int, int) {
  const Locked lock;
  add_variable(module_of(handle), {host, name, bytes, true, host});
}
STUB void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}
STUB char __cudaRegisterUnifiedTable(void**, void*) { return 0; }
