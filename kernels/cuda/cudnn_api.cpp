// Which cuDNN there is, if any, and what its answers mean.
#include "warptape/kernels/cuda/cudnn_api.h"

#include <atomic>
#include <memory>
#include <vector>

#include "warptape/core/error.h"

namespace wt {
namespace {

constexpr const char* kCudnnRoots[] = {"CUDNN_ROOT"};
constexpr LibrarySearch kCudnnSearch = {"libcudnn.so.9", "WT_CUDNN", kCudnnRoots,
                                        "nvidia/cudnn/lib", "pip install nvidia-cudnn-cu13"};

struct State {
  detail::CudnnFound found;
};

const State& real() {
  static const State* s = [] {  // outlives static destructors, as the library does
    auto* made = new State;
    made->found = detail::find_cudnn(system_loader);
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

CudnnFound find_cudnn(const LibraryLoader& loader) {
  const LoadedLibrary library = load_library(kCudnnSearch, loader);
  CudnnFound found{.why_not = library.why_not, .file = library.file};
  if (!library.handle) return found;
  auto api = std::make_unique<CudnnApi>();
  LibraryFunctions functions(library, loader);
  if (!functions.take(api->version, "cudnnGetVersion")) {
    found.why_not = str(found.file, " is no cuDNN: it has no cudnnGetVersion");
    return found;
  }
  if (const size_t version = api->version(); version < kOldestCudnn) {
    found.why_not = str(found.file, " is cuDNN ", cudnn_version_text(version), ", older than 9.0");
    return found;
  }
  functions.take(api->error_text, "cudnnGetErrorString");
  functions.take(api->last_error_text, "cudnnGetLastErrorString");
  functions.take(api->create, "cudnnCreate");
  functions.take(api->destroy, "cudnnDestroy");
  functions.take(api->set_stream, "cudnnSetStream");
  functions.take(api->make_descriptor, "cudnnBackendCreateDescriptor");
  functions.take(api->free_descriptor, "cudnnBackendDestroyDescriptor");
  functions.take(api->set_attribute, "cudnnBackendSetAttribute");
  functions.take(api->get_attribute, "cudnnBackendGetAttribute");
  functions.take(api->finalize, "cudnnBackendFinalize");
  functions.take(api->execute, "cudnnBackendExecute");
  if (functions.missing) {
    found.why_not = str(found.file, " lacks ", functions.missing);
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
