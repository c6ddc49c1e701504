// Which cuDNN there is, if any, and what its answers mean.
#include "warptape/kernels/cuda/cudnn_api.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "warptape/core/error.h"

namespace wt {
namespace {

constexpr const char* kLibrary = "libcudnn.so.9";

// Where Python's wheels and CUDNN_ROOT have it. The name alone comes first: the system's own, or
// one that the process has loaded already.
std::vector<std::string> places() {
  std::vector<std::string> list{kLibrary};
  const auto folder = [](const char* variable) {
    const char* text = std::getenv(variable);
    return std::string(text ? text : "");
  };
  if (const std::string root = folder("CUDNN_ROOT"); !root.empty())
    for (const char* lib : {"/lib/", "/lib64/"}) list.push_back(root + lib + kLibrary);
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string root = folder(variable);
    if (root.empty()) continue;
    list.push_back(str(root, "/lib/", kLibrary));
    std::error_code error;
    for (std::filesystem::directory_iterator f(root + "/lib", error), end; !error && f != end;
         f.increment(error))
      if (f->path().filename().string().starts_with("python3"))
        list.push_back(str(f->path().string(), "/site-packages/nvidia/cudnn/lib/", kLibrary));
  }
  return list;
}

template <class F>
bool find(F& function, void* library, const char* name,
          void* (*symbol)(void* library, const char*)) {
  function = reinterpret_cast<F>(symbol(library, name));
  return function != nullptr;
}

struct State {
  detail::CudnnFound found;
};

const State& real() {
  static const State* s = [] {  // outlives static destructors, as the library does
    auto* made = new State;
    made->found =
        detail::find_cudnn([](const char* file) { return dlopen(file, RTLD_NOW); },
                           [](void* library, const char* name) { return dlsym(library, name); });
    return made;
  }();
  return *s;
}

std::atomic<const State*> replaced{nullptr};
std::atomic<u64> generation{0};

const State& state() {
  const State* s = replaced.load(std::memory_order_acquire);
  return s ? *s : real();
}

}  // namespace

namespace detail {

CudnnFound find_cudnn(void* (*open)(const char* file),
                      void* (*symbol)(void* library, const char*)) {
  CudnnFound found;
  const char* asked = std::getenv("WT_CUDNN");
  if (asked && std::string(asked) == "off") {
    found.why_not = "WT_CUDNN=off";
    return found;
  }
  const bool by_name = asked && *asked;
  void* library = nullptr;
  for (const std::string& place : by_name ? std::vector<std::string>{asked} : places()) {
    library = open(place.c_str());
    found.file = place;
    if (library) break;
  }
  if (!library) {
    found.why_not = by_name ? str("WT_CUDNN: ", asked, " cannot be loaded")
                            : str("there is no ", kLibrary,
                                  " (pip install nvidia-cudnn-cu13, or WT_CUDNN=FILE)");
    found.file.clear();
    return found;
  }
  auto api = std::make_unique<CudnnApi>();
  struct Name {
    bool found;
    const char* name;
  };
  const auto take = [&](auto& function, const char* name) {
    return Name{find(function, library, name, symbol), name};
  };
  if (!take(api->version, "cudnnGetVersion").found) {
    found.why_not = str(found.file, " is no cuDNN: it has no cudnnGetVersion");
    return found;
  }
  if (const size_t version = api->version(); version < kOldestCudnn) {
    found.why_not = str(found.file, " is cuDNN ", cudnn_version_text(version), ", older than 9.0");
    return found;
  }
  for (const Name n :
       {take(api->error_text, "cudnnGetErrorString"),
        take(api->last_error_text, "cudnnGetLastErrorString"), take(api->create, "cudnnCreate"),
        take(api->destroy, "cudnnDestroy"), take(api->set_stream, "cudnnSetStream"),
        take(api->make_descriptor, "cudnnBackendCreateDescriptor"),
        take(api->free_descriptor, "cudnnBackendDestroyDescriptor"),
        take(api->set_attribute, "cudnnBackendSetAttribute"),
        take(api->get_attribute, "cudnnBackendGetAttribute"),
        take(api->finalize, "cudnnBackendFinalize"), take(api->execute, "cudnnBackendExecute")})
    if (!n.found) {
      found.why_not = str(found.file, " lacks ", n.name);
      return found;
    }
  found.api = api.release();  // for the life of the process
  return found;
}

void replace_cudnn(const CudnnApi* api, const char* why_not) {
  // Another thread may still read the one before: they are kept.
  static auto* all = new std::vector<std::unique_ptr<State>>;
  State* s = all->emplace_back(std::make_unique<State>()).get();
  s->found.api = api;
  if (why_not) s->found.why_not = why_not;
  generation.fetch_add(1);
  replaced.store(s, std::memory_order_release);
}
void restore_cudnn() {
  generation.fetch_add(1);
  replaced.store(nullptr, std::memory_order_release);
}
u64 cudnn_generation() { return generation.load(std::memory_order_acquire); }

}  // namespace detail

const CudnnApi* cudnn_api() { return state().found.api; }

const char* cudnn_why_not() {
  const State& s = state();
  return s.found.api ? nullptr : s.found.why_not.c_str();
}

std::string cudnn_version_text(size_t version) {
  // Until 8 a major version was a thousand: 8907 is 8.9.7.
  const size_t major = version < 10000 ? 1000 : 10000;
  return str(version / major, ".", version % major / 100, ".", version % 100);
}

std::string describe_cudnn() {
  const State& s = state();
  if (!s.found.api) return str("not used: ", s.found.why_not);
  return str(cudnn_version_text(s.found.api->version()),
             s.found.file.empty() ? "" : ", " + s.found.file);
}

void cudnn_check(const CudnnApi& api, int status, const char* call) {
  if (status == kCudnnSuccess) [[likely]]
    return;
  char more[512] = "";
  api.last_error_text(more, sizeof more);
  more[sizeof more - 1] = 0;
  std::string text = str(call, ": ", api.error_text(status));
  if (*more) text += str(" (", more, ")");
  for (char& c : text)
    if (u8(c) < ' ') c = ' ';  // one line
  throw CudnnFailure{status, std::move(text)};
}

CudnnDescriptor::CudnnDescriptor(const CudnnApi& api, CudnnDescriptorType type) : api_(&api) {
  cudnn_check(api, api.make_descriptor(type, &p_), "cudnnBackendCreateDescriptor");
}

void CudnnDescriptor::set(CudnnAttribute attribute, CudnnAttributeType type, i64 count,
                          const void* values) {
  cudnn_check(*api_, api_->set_attribute(p_, attribute, type, count, values),
              "cudnnBackendSetAttribute");
}

i64 CudnnDescriptor::get(CudnnAttribute attribute, CudnnAttributeType type, i64 room,
                         void* values) const {
  i64 count = 0;
  cudnn_check(*api_, api_->get_attribute(p_, attribute, type, room, &count, values),
              "cudnnBackendGetAttribute");
  return count;
}

CudnnDescriptor& CudnnDescriptor::finalize() {
  cudnn_check(*api_, api_->finalize(p_), "cudnnBackendFinalize");
  return *this;
}

}  // namespace wt
