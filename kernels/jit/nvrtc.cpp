#include "warptape/kernels/jit/nvrtc.h"

#include <algorithm>
#include <atomic>
#include <memory>

namespace wt::jit {
namespace {

constexpr const char* kNvrtcOthers[] = {"libnvrtc.so.12", "libnvrtc.so"};
constexpr const char* kNvrtcRoots[] = {"CUDA_HOME", "CUDA_PATH"};
constexpr LibraryFolder kNvrtcFolders[] = {{nullptr, "/usr/local/cuda/lib64"},
                                           {nullptr, "/usr/local/cuda/lib"}};
constexpr LibrarySearch kNvrtcSearch = {
    "libnvrtc.so.13",
    "WT_NVRTC",
    kNvrtcRoots,
    "nvidia/cu13/lib",
    "it comes with a CUDA toolkit, or by pip install nvidia-cuda-nvrtc",
    kNvrtcOthers,
    kNvrtcFolders};

const char* take_nvrtc_functions(Nvrtc& a, const LoadedLibrary& library,
                                 const LibraryLoader& loader) {
  LibraryFunctions must(library, loader);
  must.take(a.version, "nvrtcVersion");
  must.take(a.arch_count, "nvrtcGetNumSupportedArchs");
  must.take(a.archs, "nvrtcGetSupportedArchs");
  must.take(a.create, "nvrtcCreateProgram");
  must.take(a.destroy, "nvrtcDestroyProgram");
  must.take(a.compile, "nvrtcCompileProgram");
  must.take(a.log_size, "nvrtcGetProgramLogSize");
  must.take(a.log, "nvrtcGetProgramLog");
  must.take(a.ptx_size, "nvrtcGetPTXSize");
  must.take(a.ptx, "nvrtcGetPTX");
  must.take(a.cubin_size, "nvrtcGetCUBINSize");
  must.take(a.cubin, "nvrtcGetCUBIN");
  must.take(a.add_name, "nvrtcAddNameExpression");
  must.take(a.lowered_name, "nvrtcGetLoweredName");
  must.take(a.error_text, "nvrtcGetErrorString");
  return must.missing;
}

std::atomic<const NvrtcFound*> replaced_nvrtc{nullptr};

}  // namespace

NvrtcFound find_nvrtc(const LibraryLoader& loader) {
  const LoadedLibrary library = load_library(kNvrtcSearch, loader);
  NvrtcFound found{.why_not = library.why_not};
  if (!library.handle) return found;
  auto api = std::make_unique<Nvrtc>();
  api->file = library.file;
  if (const char* missing = take_nvrtc_functions(*api, library, loader)) {
    found.why_not = str(library.file, " lacks ", missing, ": it is too old, or not NVRTC");
    return found;
  }
  int major = 0, minor = 0, count = 0;
  if (api->version(&major, &minor) == kNvrtcSuccess) api->version_text = str(major, ".", minor);
  if (api->arch_count(&count) == kNvrtcSuccess && count > 0) {
    api->targets.resize(size_t(count));
    if (api->archs(api->targets.data()) != kNvrtcSuccess) api->targets.clear();
  }
  if (api->version_text.empty() || api->targets.empty()) {
    found.why_not = str(library.file, " does not say its version and what it compiles for");
    return found;
  }
  std::sort(api->targets.begin(), api->targets.end());
  found.api = api.release();
  return found;
}

const NvrtcFound& nvrtc() {
  if (const NvrtcFound* other = replaced_nvrtc.load(std::memory_order_acquire)) return *other;
  static const NvrtcFound* real = new NvrtcFound(find_nvrtc(system_loader));
  return *real;
}

void replace_nvrtc(const NvrtcFound* found) {
  replaced_nvrtc.store(found, std::memory_order_release);
}

}  // namespace wt::jit
