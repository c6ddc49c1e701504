#include "warptape/kernels/run.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>

#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/nvtx.h"
#include "warptape/core/stream.h"
#include "warptape/core/suggest.h"
#include "warptape/kernels/cuda/api.h"
#include "warptape/kernels/dispatch/run_erased.h"
#include "warptape/kernels/dispatch/run_kernel_file.h"

namespace wt {
namespace {

// WT_KERNEL="softmax_forward:naive,matmul:tiled": overrides for the whole process, below every
// scope. Parsed once; a bad entry is reported by the first kernel that runs.
struct Environment {
  std::deque<std::string> texts;
  std::deque<VariantOverride> entries;
  const VariantOverride* head = nullptr;
  std::string error;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(at, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool lists(const ContractInfo& c, std::string_view variant) {
  for (int d = 0; d < kNumDeviceKinds; ++d)
    for (int i = 0; i < c.count(DeviceKind(d)); ++i)
      if (variant == c.variant(DeviceKind(d), i).name) return true;
  const detail::ErasedContract::List* const file = detail::file_variants(*c.erased);
  for (int i = 0; file && i < file->count; ++i)
    if (variant == c.erased->described(detail::variant_of(*file, i)).name) return true;
  return false;
}

// Empty when some device lists the variant, else the message.
std::string check_override(std::string_view contract, std::string_view variant) {
  std::vector<std::string_view> contracts, variants;
  bool known = contract == "*";
  for (const ContractInfo& c : all_contracts()) {
    contracts.push_back(c.name);
    if (contract != "*" && contract != c.name) continue;
    known = true;
    if (lists(c, variant)) return {};
    for (int d = 0; d < kNumDeviceKinds; ++d)
      for (int i = 0; i < c.count(DeviceKind(d)); ++i)
        variants.push_back(c.variant(DeviceKind(d), i).name);
  }
  if (!known) {
    return str("no kernel contract is called '", printable(contract), "'",
               did_you_mean(contract, contracts));
  }
  return str("no device has a variant '", printable(variant), "' of ", contract,
             did_you_mean(variant, variants));
}

const Environment& environment() {
  static const Environment* e = [] {
    nvtx::follow_environment();  // this is looked at once, at the first launch
    auto* env = new Environment;
    if (const char* const file = std::getenv("WT_KERNEL_FILE"); file && *file)
      env->error = detail::load_kernel_file(file);
    const char* text = std::getenv("WT_KERNEL");
    if (!text || !env->error.empty()) return env;
    for (const std::string& entry : split(text, ',')) {
      const std::vector<std::string> pair = split(entry, ':');
      if (pair.size() != 2) {
        env->error = str("WT_KERNEL: \"", entry, "\" is not contract:variant");
        continue;
      }
      if (std::string why = check_override(pair[0], pair[1]); !why.empty())
        env->error = "WT_KERNEL: " + why;
      env->texts.push_back(pair[0]);
      const char* contract = env->texts.back().c_str();
      env->texts.push_back(pair[1]);
      env->entries.push_back({contract, env->texts.back().c_str(), env->head});
      env->head = &env->entries.back();
    }
    return env;
  }();
  return *e;
}

// Scopes are interned so that nodes can keep them by pointer.
const VariantOverride* intern_override(std::string_view contract, std::string_view variant,
                                       const VariantOverride* next) {
  struct Entry {
    std::string contract, variant;
    VariantOverride row;
  };
  static auto* entries = new std::deque<Entry>;
  static auto* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  for (const Entry& e : *entries)
    if (e.contract == contract && e.variant == variant && e.row.next == next) return &e.row;
  Entry& e = entries->emplace_back(Entry{std::string(contract), std::string(variant), {}});
  e.row = {e.contract.c_str(), e.variant.c_str(), next};
  return &e.row;
}

}  // namespace

VariantScope::VariantScope(std::string_view contract, std::string_view variant)
    : before_(mode.overrides), slow_before_(mode.slow), id_before_(mode.id) {
  if (std::string why = check_override(contract, variant); !why.empty()) throw UsageError(why);
  mode.overrides = intern_override(contract, variant, before_);
  mode.slow |= kSlowOverride;
  intern_mode();
}

VariantScope::~VariantScope() {
  mode.overrides = before_;
  mode.slow = slow_before_;
  mode.id = id_before_;
}

namespace detail {

void prepare_launch(const void* args, size_t bytes, Launch& l) {
  if (l.device.is_meta) return;
  const StreamBackend* b = stream_backend(l.device);
  if (!b) return;
  if (l.stream && l.stream == mode.native_stream) l.stream = native_stream(l.device);
  if (l.device.kind == DeviceKind::cuda) return prepare_cuda_launch(args, bytes, l);
  u64 word;
  for (size_t at = 0; at + sizeof word <= bytes; at += sizeof word) {
    std::memcpy(&word, static_cast<const char*>(args) + at, sizeof word);
    if (word) b->use(l.device, reinterpret_cast<const void*>(word), l.stream);
  }
}

namespace {
void check_environment() {
  const Environment& e = environment();
  if (!e.error.empty()) throw UsageError(e.error);
  if (!e.head && !may_be_tuned()) mode.slow &= ~u32(kSlowEnvironment);
}
}  // namespace

const char* overriding_variant(const char* contract) {
  if (mode.slow & kSlowEnvironment) check_environment();
  const auto search = [&](const VariantOverride* o) -> const char* {
    for (; o; o = o->next)
      if (!std::strcmp(o->contract, contract) || !std::strcmp(o->contract, "*")) return o->variant;
    return nullptr;
  };
  if (const char* v = search(mode.overrides)) return v;
  return search(environment().head);
}

bool same_name(const char* a, const char* b) { return !std::strcmp(a, b); }

}  // namespace detail
}  // namespace wt
