#include "warptape/kernels/jit/kernel.h"

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/cuda/api.h"
#include "warptape/kernels/jit/cache_file.h"
#include "warptape/kernels/jit/nvrtc.h"

namespace wt {
extern bool launches_wait;  // kernels/device/launch.cpp
}

namespace wt::jit {
namespace {

struct Compiled {
  std::string name;
  KernelCode code;
  std::unique_ptr<LoadedKernel> loaded{};  // one for all devices that take the code
};
struct Kernels {
  std::mutex mutex{};  // held while one compiles: who wants the same one waits for it
  std::map<std::string, std::unique_ptr<Compiled>> by_key{};  // for the life of the process
  std::vector<std::unique_ptr<Compiled>> forgotten{};         // a launch may still hold one
  Counts counts{};
};
Kernels& kernels() {
  static Kernels* const k = new Kernels;  // launches may come from static destructors
  return *k;
}
std::atomic<unsigned long long> generation{1};
constexpr int kNoSuchParameter = 1;  // cudaErrorInvalidValue: there are no more

std::optional<KernelCode> kept_code(const std::string& path, const std::string& key) {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return std::nullopt;
  try {
    return read_kernel_file(path, key);
  } catch (const Error&) {
    return std::nullopt;  // damaged, or not to be read: it is compiled, and replaced
  }
}

void keep_code(const std::string& path, const std::string& key, const KernelCode& code) {
  if (path.empty()) return;
  try {
    write_kernel_file(path, key, code);
  } catch (const Error& e) {
    warn_once("kernel cache",
              str("compiled kernels are not kept for the next process: ", e.what()));
  }
}

// The mutex is held.
Compiled& compiled(const KernelSource& s, const std::string& arch) {
  Kernels& all = kernels();
  const NvrtcFound& found = nvrtc();
  const std::string key = key_of(s, arch, found.api ? found.api->version_text : "");
  if (const auto at = all.by_key.find(key); at != all.by_key.end()) {
    ++all.counts.memory_hits;
    return *at->second;
  }
  const std::string folder = can_be_kept(s) ? kernel_cache_folder() : "";
  const std::string path = folder.empty() || !found.api ? "" : cache_path(folder, key);
  auto made = std::make_unique<Compiled>();
  made->name = s.name;
  if (std::optional<KernelCode> kept = kept_code(path, key)) {
    made->code = std::move(*kept);
    ++all.counts.disk_hits;
  } else {
    made->code = compile(s, arch);
    ++all.counts.compiled;
    keep_code(path, key, made->code);
  }
  return *(all.by_key[key] = std::move(made));
}

std::string kernel_title(const std::string& name) { return str("[kernel ", printable(name), "]"); }

// What an image that is not the device's is answered with.
bool is_other_code(int code) {
  return code == kCudaInvalidImage || code == kCudaNoKernelImage || code == kCudaInvalidPtx;
}

// 0, or the runtime's code.
int load(Compiled& c) {
  const CudaApi& api = *cuda_api();
  if (!api.load_code)
    throw NotAvailable(kernel_title(c.name) +
                       " kernels compiled at run time need a build with CUDA 12.8 or newer");
  void* library = nullptr;
  void* handle = nullptr;
  int code = api.load_code(&library, c.code.code.data());
  if (code == kCudaSuccess) code = api.find_kernel(&handle, library, c.code.entry.c_str());
  if (code != kCudaSuccess) {
    api.last_error();
    return code;
  }
  auto made = std::make_unique<LoadedKernel>();
  made->handle = handle;
  made->name = c.name.c_str();
  size_t bytes = 0;
  while ((code = api.parameter(handle, made->parameters.size(), &bytes)) == kCudaSuccess)
    made->parameters.push_back(bytes);
  api.last_error();
  if (code != kNoSuchParameter) return code;  // a launch could not be checked
  c.loaded = std::move(made);
  return kCudaSuccess;
}

}  // namespace

const KernelCode& code_for(const KernelSource& s, const std::string& arch) {
  const std::lock_guard lock(kernels().mutex);
  return compiled(s, arch).code;
}

const LoadedKernel& kernel_for(const KernelSource& s, const std::string& arch, Device d) {
  require_available(d);
  const DeviceLimits& limits = device_limits(d);
  const std::string target = arch.empty() ? arch_for(limits.major, limits.minor) : arch;
  enter_cuda(d.index);
  const std::lock_guard lock(kernels().mutex);
  Compiled* c = &compiled(s, target);
  if (c->loaded) return *c->loaded;
  int code = load(*c);
  // A device that takes no machine code, as an emulated one, takes PTX.
  if (is_other_code(code) && arch.empty() && !is_ptx_arch(target)) {
    c = &compiled(s, ptx_arch(target));
    code = c->loaded ? int(kCudaSuccess) : load(*c);
  }
  if (is_other_code(code))
    throw UsageError(str(kernel_title(s.name), " code for ", target, " does not run on ",
                         to_string(d), ", whose compute capability is ", limits.major, ".",
                         limits.minor, " (CUDA error ", code, ")"));
  cuda_check(code, "cudaLibraryLoadData", d.index);
  return *c->loaded;
}

Counts counts() {
  const std::lock_guard lock(kernels().mutex);
  return kernels().counts;
}

void forget_kernels() {
  const std::lock_guard lock(kernels().mutex);
  for (auto& [key, c] : kernels().by_key) kernels().forgotten.push_back(std::move(c));
  kernels().by_key.clear();
  kernels().counts = {};
  generation.fetch_add(1);
}

unsigned long long kernel_generation() { return generation.load(std::memory_order_acquire); }

void launch(const LoadedKernel& k, const Grid& g, std::span<u64> values, Device d, void* stream) {
  prepare_cuda_launch(values.data(), values.size_bytes(), {.stream = stream, .device = d});
  const CudaApi& api = *cuda_api();
  std::vector<void*> arguments;
  for (u64& v : values) arguments.push_back(&v);
  constexpr size_t kUnasked = 48 * 1024;  // of dynamic shared memory
  int code = g.shared > kUnasked ? allow_cuda_shared(k.handle, g.shared) : int(kCudaSuccess);
  if (code == kCudaSuccess)
    code = api.launch_kernel(k.handle, g.blocks, g.threads, arguments.data(), g.shared, stream);
  if (code == kCudaSuccess && launches_wait) code = api.wait_stream(stream);
  if (code != kCudaSuccess) cuda_launch_failed(kernel_title(k.name), api.error_text(code), code);
}

}  // namespace wt::jit
