#include "warptape/core/cupti/library.h"

namespace wt::profiler::cupti {
namespace {

constexpr const char* kOthers[] = {"libcupti.so.12", "libcupti.so"};
constexpr const char* kRoots[] = {"CUDA_HOME", "CUDA_PATH"};
constexpr LibraryFolder kFolders[] = {{"CUDA_HOME", "extras/CUPTI/lib64"},
                                      {"CUDA_PATH", "extras/CUPTI/lib64"},
                                      {nullptr, "/usr/local/cuda/extras/CUPTI/lib64"},
                                      {nullptr, "/usr/local/cuda/lib64"}};
constexpr LibrarySearch kSearch = {
    "libcupti.so.13", "WT_CUPTI", kRoots, "nvidia/cu13/lib", "it comes with a CUDA toolkit",
    kOthers,          kFolders};

const char* take_functions(Api& a, const LoadedLibrary& library, const LibraryLoader& loader) {
  LibraryFunctions must(library, loader), may(library, loader);
  must.take(a.subscribe, "cuptiSubscribe");
  must.take(a.unsubscribe, "cuptiUnsubscribe");
  must.take(a.register_callbacks, "cuptiActivityRegisterCallbacks");
  must.take(a.enable, "cuptiActivityEnable");
  must.take(a.disable, "cuptiActivityDisable");
  must.take(a.flush, "cuptiActivityFlushAll");
  must.take(a.next_record, "cuptiActivityGetNextRecord");
  must.take(a.dropped, "cuptiActivityGetNumDroppedRecords");
  must.take(a.timestamp, "cuptiGetTimestamp");
  must.take(a.push, "cuptiActivityPushExternalCorrelationId");
  must.take(a.pop, "cuptiActivityPopExternalCorrelationId");
  may.take(a.result_text, "cuptiGetResultString");
  return must.missing;
}

// What most often is the matter, in words of what to do.
const char* hint(int code) {
  switch (code) {
    case 27:
      return " (this GPU, or this way of using it, is none that CUPTI records)";
    case 33:
    case 40:
      return " (a virtual GPU: its host must allow profiling)";
    case 35:
      return " (profiling is for administrators here: "
             "https://developer.nvidia.com/ERR_NVGPUCTRPERM)";
    case 36:
    case 39:
      return " (another tool uses CUPTI in this process: nsys, ncu)";
    default:
      return "";
  }
}

}  // namespace

std::string Api::words(const char* call, int code) const {
  const char* text = nullptr;
  if (result_text) result_text(code, &text);
  return str(file, ": ", call, ": ", text ? text : str("error ", code), hint(code));
}

Loaded load(const LibraryLoader& loader) {
  Loaded result;
  const LoadedLibrary library = load_library(kSearch, loader);
  result.why_not = library.why_not;
  if (!library.handle) return result;
  auto api = std::make_unique<Api>();
  api->file = library.file;
  if (const char* missing = take_functions(*api, library, loader)) {
    result.why_not = str(library.file, " lacks ", missing, ": it is too old, or not CUPTI");
    result.broken = true;
    return result;
  }
  result.api = api.release();
  return result;
}

}  // namespace wt::profiler::cupti
