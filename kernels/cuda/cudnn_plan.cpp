#include "warptape/kernels/cuda/cudnn_plan.h"

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "warptape/core/cache_folder.h"
#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/machine/launch_timer.h"
#include "warptape/core/memory_footprint.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/cuda/api.h"

namespace wt {
namespace {

u64 hash_of(std::string_view bytes) {  // FNV-1a: the same in every process
  u64 h = 0xCBF29CE484222325u;
  for (const char c : bytes) h = (h ^ u8(c)) * 0x100000001B3u;
  return h;
}

struct KeyHash {
  size_t operator()(const CudnnKey& key) const {
    u64 h = hash_of(key.name);
    for (const i64 w : key.words) h = (h ^ u64(w)) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
    return size_t(h);
  }
};

// A thread's cuDNN on one device. A handle belongs to the device that is current when it is made.
struct Library {
  const CudnnApi* api = nullptr;
  u64 generation = 0;
  void* handle = nullptr;
  std::string why_not;  // there is no handle
  std::unordered_map<CudnnKey, CudnnPlan, KeyHash> plans;
  std::unordered_map<std::string, int> shapes{};  // plans of each computation
  std::unordered_set<CudnnKey, KeyHash> timed{};  // whose engines have been timed

  Library() = default;
  Library(const Library&) = delete;
  ~Library() { clear(); }
  void clear() {
    plans.clear();
    shapes.clear();
    timed.clear();
    if (handle) api->destroy(handle);  // errors at the end of the process are nobody's
    handle = nullptr;
    why_not.clear();
  }
};

[[noreturn]] void fail(const CudnnFailure& f, Device d) {
  // A dead context shows up as cuDNN's error: the runtime knows the cause.
  if (const int code = cuda_api()->last_error(); code != kCudaSuccess)
    cuda_failed(code, f.text.c_str(), d.index);
  throw DeviceError(str(f.text, " on ", to_string(d)));
}

Library& library(Device d) {
  thread_local std::unordered_map<int, std::unique_ptr<Library>> libraries;
  std::unique_ptr<Library>& slot = libraries[d.index];
  if (!slot) slot = std::make_unique<Library>();
  Library& l = *slot;
  const CudnnApi* api = cudnn_api();
  if (l.api != api || l.generation != detail::cudnn_generation()) {
    l.clear();
    l.api = api;
    l.generation = detail::cudnn_generation();
  }
  require_available(d);
  enter_cuda(d.index);
  if (!l.handle && l.why_not.empty()) {
    if (!api) {
      l.why_not = cudnn_why_not();
      return l;
    }
    try {
      const memory::ExternalScope outside(d, "cuDNN");
      cudnn_check(*api, api->create(&l.handle), "cudnnCreate");
    } catch (const CudnnFailure& f) {
      l.handle = nullptr;
      l.why_not = f.text;
    }
  }
  return l;
}

// --- the choice of an engine ---

bool takes(const CudnnDescriptor& config, const CudnnApi& api, bool exact) {
  CudnnDescriptor engine(api, kCudnnEngine);
  void* raw = engine.get();
  config.get(kConfigEngine, kTypeDescriptor, 1, &raw);
  int notes[kNoteCount];
  const i64 count = engine.get(kEngineNumericalNote, kTypeNumericalNote, kNoteCount, notes);
  for (i64 i = 0; i < count && i < kNoteCount; ++i) {
    const int note = notes[i];
    if (note == kNoteNondeterministic || note == kNoteReducedPrecisionReduction) return false;
    if (note == kNoteDownConvertInputs) return false;
    if (note < 0 || note > kNoteStrictNan) return false;  // a later version's: nobody here knows it
    if (exact && (note == kNoteTensorCore || (note >= kNoteFft && note < kNoteStrictNan)))
      return false;
  }
  return true;
}

CudnnPlan plan_of(const Library& l, const CudnnDescriptor& config) {
  CudnnPlan made{CudnnDescriptor(*l.api, kCudnnExecutionPlan), 0, {}};
  made.plan.set(kPlanHandle, kTypeHandle, 1, &l.handle);
  made.plan.set(kPlanConfig, config);
  made.plan.finalize();
  made.plan.get(kPlanWorkspaceSize, kTypeInt64, 1, &made.workspace);
  return made;
}

// Calls `take` with the plan of each engine that may be used, as cuDNN's heuristics rank them,
// until it says true. Why there was none, if so.
template <class Take>
std::string each_plan(const Library& l, const CudnnDescriptor& graph, bool exact,
                      const Take& take) {
  const CudnnApi& api = *l.api;
  int seen = 0;
  std::string last;
  for (const int mode : {kHeuristicA, kHeuristicFallback}) {
    std::vector<CudnnDescriptor> configs;
    try {
      CudnnDescriptor heuristic(api, kCudnnEngineHeuristic);
      heuristic.set(kHeuristicGraph, graph);
      heuristic.set(kHeuristicMode, kTypeHeuristicMode, mode);
      heuristic.finalize();
      // The caller makes the descriptors that the answers go to.
      const i64 count = heuristic.get(kHeuristicResults, kTypeDescriptor, 0, nullptr);
      std::vector<void*> raw;
      for (i64 i = 0; i < count; ++i)
        raw.push_back(configs.emplace_back(api, kCudnnEngineConfig).get());
      const i64 got =
          count ? heuristic.get(kHeuristicResults, kTypeDescriptor, count, raw.data()) : 0;
      configs.resize(size_t(got < count ? got : count));
    } catch (const CudnnFailure& f) {
      last = f.text;  // the fallback may still know one
      continue;
    }
    for (const CudnnDescriptor& config : configs) {
      ++seen;
      try {
        if (!takes(config, api, exact)) continue;
        CudnnPlan made = plan_of(l, config);
        if (made.workspace > kMostCudnnWorkspace)
          last = "its engines ask for more than 512 MiB";
        else if (take(std::move(made)))
          return {};
      } catch (const CudnnFailure& f) {
        last = f.text;
      }
    }
  }
  return !last.empty()   ? last
         : seen && exact ? "it has no engine that repeats its results and rounds as f32 does"
         : seen          ? "it has no engine that repeats its results bit by bit"
                         : "it has no engine";
}

CudnnPlan choose(const Library& l, const CudnnDescriptor& graph, bool exact) {
  CudnnPlan first;
  std::string why_not = each_plan(l, graph, exact, [&](CudnnPlan&& made) {
    first = std::move(made);
    return true;
  });
  first.why_not = std::move(why_not);
  return first;
}

// --- plans on disk ---
// "warptape cudnn plan 1", device, version and key, the number of bytes and a hash of the JSON
// text, each on a line, and that text. A file is named by a hash of the key, and says the key
// itself.

constexpr const char* kFirstLine = "warptape cudnn plan 1";
constexpr i64 kMostJson = i64{4} << 20;

std::string head_of(Device d, const CudnnApi& api, const CudnnKey& key) {
  return str(kFirstLine, "\n", cuda::properties(d.index).name, "\n",
             cudnn_version_text(api.version()), "\n", key.text(), "\n");
}

std::string file_of(Device d, const std::string& head) {
  const std::string folder = cudnn_plan_folder(d);
  if (folder.empty()) return {};
  char name[32];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(hash_of(head)));
  return str(folder, "/", name, ".plan");
}

void save(const CudnnPlan& made, const std::string& path, const std::string& head) {
  if (path.empty()) return;
  try {
    const i64 bytes = made.plan.get(kPlanJson, kTypeChar, 0, nullptr);
    if (bytes <= 0 || bytes > kMostJson) return;
    std::string json(size_t(bytes), '\0');
    made.plan.get(kPlanJson, kTypeChar, bytes, json.data());
    json.resize(json.find('\0') == json.npos ? json.size() : json.find('\0'));
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    write_file_atomically(path, str(head, json.size(), " ", hash_of(json), "\n", json));
  } catch (const CudnnFailure&) {  // an engine that cannot be written is chosen anew next time
  } catch (const std::exception& e) {
    warn_once("cudnn plans", str("plans of cuDNN are not kept: ", e.what()));
  }
}

// False when there is no such file or it is of no use; a damaged one is named once.
bool load(CudnnPlan& to, const Library& l, const std::string& path, const std::string& head) {
  std::ifstream in(path, std::ios::binary);
  if (path.empty() || !in) return false;
  std::ostringstream read;
  read << in.rdbuf();
  const std::string all = read.str();
  const auto damaged = [&](std::string_view why) {
    warn_once(path, str("not used: ", path, ": ", why, "; it is written anew"));
    return false;
  };
  if (!all.starts_with(kFirstLine)) return damaged("is no plan of cuDNN");
  if (!all.starts_with(head)) return false;  // of another problem: two keys have one hash
  const size_t line = all.find('\n', head.size());
  if (line == all.npos) return damaged("its end is missing");
  std::string json = all.substr(line + 1);
  if (all.substr(head.size(), line - head.size()) != str(json.size(), " ", hash_of(json)))
    return damaged("it is damaged");
  try {
    CudnnPlan made{CudnnDescriptor(*l.api, kCudnnExecutionPlan), 0, {}};
    made.plan.set(kPlanHandle, kTypeHandle, 1, &l.handle);
    made.plan.set(kPlanJson, kTypeChar, i64(json.size()) + 1, json.c_str());
    made.plan.finalize();
    made.plan.get(kPlanWorkspaceSize, kTypeInt64, 1, &made.workspace);
    if (made.workspace > kMostCudnnWorkspace) return false;
    to = std::move(made);
    return true;
  } catch (const CudnnFailure& f) {
    return damaged(f.text);
  }
}

// Plans of one computation, each for sizes of its own, until a person is told: more than the layers
// of a large model, trained and evaluated at two sizes of a batch, have.
constexpr int kManyShapes = 256;

void count_plan(Library& l, const std::string& computation) {
  if (++l.shapes[computation] != kManyShapes) return;
  warn_once(
      "cudnn shapes",
      str("cuDNN has planned ", computation, " for ", kManyShapes,
          " different shapes: each new one costs a search, of milliseconds to seconds, and "
          "memory for its plan. Try inputs of few sizes: Loader's {.drop_last = true}, images "
          "and sequences padded to some lengths"));
}

}  // namespace

void CudnnKey::add(const CudnnTensor& t) {
  words.push_back(t.alignment);
  words.insert(words.end(), t.dims, t.dims + t.ndim);
  words.insert(words.end(), t.strides, t.strides + t.ndim);
}

std::string CudnnKey::text() const {
  std::string out = name;
  for (const i64 w : words) out += str(" ", w);
  return out;
}

std::string cudnn_plan_folder(Device d) {
  const char* asked = std::getenv("WT_CUDNN_PLANS");
  if (asked && std::string_view(asked) == "off") return {};
  const CudnnApi* api = cudnn_api();
  const std::string folder = user_cache_folder();
  if (folder.empty() || !api) return {};
  std::string name = str(cuda::properties(d.index).name, "-", cudnn_version_text(api->version()));
  for (char& c : name)
    if (!std::isalnum(u8(c)) && c != '.') c = '-';
  return str(folder, "/cudnn-", name);
}

CudnnPlan& cudnn_plan(Device d, const CudnnKey& key, bool exact,
                      void (*describe)(CudnnGraph& graph, const void* problem),
                      const void* problem) {
  Library& l = library(d);
  if (const auto found = l.plans.find(key); found != l.plans.end()) [[likely]]
    return found->second;
  CudnnPlan made;
  if (!l.handle) {
    made.why_not = l.why_not;
  } else {
    const std::string head = head_of(d, *l.api, key), path = file_of(d, head);
    if (!load(made, l, path, head)) {
      try {
        CudnnGraph graph(*l.api);
        describe(graph, problem);
        made = choose(l, graph.build(l.handle), exact);
        if (made.why_not.empty()) save(made, path, head);
      } catch (const CudnnFailure& f) {
        if (!f.unsupported()) fail(f, d);
        made.why_not = f.text;
      }
    }
  }
  if (made.why_not.empty()) count_plan(l, key.name);
  return l.plans.emplace(key, std::move(made)).first->second;
}

void cudnn_time_engines(Device d, const CudnnKey& key, bool exact,
                        void (*describe)(CudnnGraph& graph, const void* problem),
                        const void* problem, const std::function<bool(CudnnPlan& plan)>& run) {
  Library& l = library(d);
  if (!l.handle || !l.timed.insert(key).second) return;
  CudnnPlan fastest;
  double least = 0;
  int count = 0;
  try {
    CudnnGraph graph(*l.api);
    describe(graph, problem);
    each_plan(l, graph.build(l.handle), exact, [&](CudnnPlan&& plan) {
      bool ran = true;
      try {
        const double us = detail::time_launches(
            d, [&] { ran = ran && run(plan); }, least);
        if (ran && (least == 0 || us < least)) fastest = std::move(plan), least = us;
      } catch (const OutOfMemory&) {  // its workspace
      }
      return ++count == kMostTimedEngines;
    });
  } catch (const CudnnFailure& f) {
    if (!f.unsupported()) fail(f, d);
  }
  if (least == 0) return;  // cudnn_plan() says why
  save(fastest, file_of(d, head_of(d, *l.api, key)), head_of(d, *l.api, key));
  if (!l.plans.contains(key)) count_plan(l, key.name);
  l.plans.insert_or_assign(key, std::move(fastest));
}

bool cudnn_run(CudnnPlan& plan, Device d, void* stream, int count, const i64* ids, void** pointers,
               void* workspace) {
  Library& l = library(d);
  try {
    cudnn_check(*l.api, l.api->set_stream(l.handle, stream), "cudnnSetStream");
    CudnnDescriptor pack(*l.api, kCudnnVariantPack);
    pack.set(kPackIds, kTypeInt64, count, ids);
    pack.set(kPackPointers, kTypePointer, count, pointers);
    pack.set(kPackWorkspace, kTypePointer, 1, &workspace);
    pack.finalize();
    cudnn_check(*l.api, l.api->execute(l.handle, plan.plan.get(), pack.get()),
                "cudnnBackendExecute");
    return true;
  } catch (const CudnnFailure& f) {
    if (!f.unsupported()) fail(f, d);
    plan.why_not = f.text;
    return false;
  }
}

}  // namespace wt
