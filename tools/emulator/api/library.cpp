// Modules that a program loads itself, from memory or a file: PTX text or a fat binary.
#include <cstdio>
#include <cstring>

#include "api/api.h"
#include "device/modules.h"

using namespace emu;

namespace {

constexpr u32 kFatBinary = 0xba55ed50, kFatWrapper = 0x466243b1, kElf = 0x464c457f;
std::vector<Module*>& libraries() {
  static auto* all = new std::vector<Module*>;
  return *all;
}

template <class F>
cudaError_t with_library(const char* name, cudaLibrary_t library, F&& f) {
  return call(name, [&] {
    for (Module* m : libraries())
      if (reinterpret_cast<cudaLibrary_t>(m) == library) return f(*m);
    return cudaErrorInvalidResourceHandle;
  });
}

cudaError_t load_image(cudaLibrary_t* library, const void* code) {
  u32 magic = 0;
  std::memcpy(&magic, code, sizeof magic);
  if (magic == kElf) {
    note("a module has machine code, and the emulator runs PTX only");
    return cudaErrorNoKernelImageForDevice;
  }
  Module* m = magic == kFatBinary || magic == kFatWrapper
                  ? add_module(code)
                  : add_module_of_text(static_cast<const char*>(code), code);
  if (const int e = load(*m, current_device())) return cudaError_t(e);
  for (const auto& f : m->program->module().functions)
    if (f->is_entry) add_function(m, nullptr, f->name.c_str());
  libraries().push_back(m);
  *library = reinterpret_cast<cudaLibrary_t>(m);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  return call("cudaLibraryLoadData", kUnsafe,
              [&] { return library && code ? load_image(library, code) : cudaErrorInvalidValue; });
}
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, cudaJitOption*,
                                    void**, unsigned, cudaLibraryOption*, void**, unsigned) {
  return call("cudaLibraryLoadFromFile", kUnsafe, [&] {
    if (!library || !path) return cudaErrorInvalidValue;
    std::FILE* file = std::fopen(path, "rb");
    if (!file) return cudaErrorFileNotFound;
    auto* bytes = new std::string;  // for ever, as the module
    char part[65536];
    for (size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) bytes->append(part, n);
    std::fclose(file);
    bytes->resize(std::max<size_t>(bytes->size(), 8));
    return load_image(library, bytes->c_str());
  });
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return with_library("cudaLibraryUnload", library, [&](Module& m) {
    remove_module(&m);
    std::erase(libraries(), &m);
    return cudaSuccess;
  });
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return with_library("cudaLibraryGetKernel", library, [&](Module& m) {
    if (!kernel || !name) return cudaErrorInvalidValue;
    for (const auto& f : m.functions)
      if (f->name == name) {
        *kernel = reinterpret_cast<cudaKernel_t>(f.get());
        return cudaSuccess;
      }
    return cudaErrorSymbolNotFound;
  });
}
cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return with_library("cudaLibraryGetKernelCount", library, [&](Module& m) {
    if (count) *count = unsigned(m.functions.size());
    return count ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned count,
                                        cudaLibrary_t library) {
  return with_library("cudaLibraryEnumerateKernels", library, [&](Module& m) {
    if (!kernels) return cudaErrorInvalidValue;
    for (unsigned i = 0; i < count && i < m.functions.size(); ++i)
      kernels[i] = reinterpret_cast<cudaKernel_t>(m.functions[i].get());
    return cudaSuccess;
  });
}
cudaError_t cudaLibraryGetGlobal(void** pointer, size_t* bytes, cudaLibrary_t library,
                                 const char* name) {
  return with_library("cudaLibraryGetGlobal", library, [&](Module& m) {
    if (!name) return cudaErrorInvalidValue;
    if (const int e = load(m, current_device())) return cudaError_t(e);
    for (const ptx::Variable& v : m.program->module().variables)
      if (v.name == name) {
        if (pointer) *pointer = pointer_to(variable_address(m, name, current_device()));
        if (bytes) *bytes = v.bytes;
        return cudaSuccess;
      }
    return cudaErrorSymbolNotFound;
  });
}
