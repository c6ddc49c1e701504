#include "warptape/core/mode.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "warptape/core/at_line.h"
#include "warptape/core/call_lines.h"
#include "warptape/core/error.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/in.h"
#include "warptape/core/memory/mailbox_lane.h"
#include "warptape/core/random.h"
#include "warptape/core/stream.h"
#include "warptape/core/warning.h"

namespace wt {

constinit thread_local Mode mode = {};
constinit thread_local const ModuleCall* module_call = nullptr;
constinit std::atomic<u32> process_slow{0};

namespace {

// What an interned id stands for.
using Snapshot = std::tuple<StreamState*, Determinism, const VariantOverride*, const ModulePath*>;
constexpr u32 kModeChunk = 1024, kModeChunks = 4096;

struct ModeTable {
  std::mutex mutex;
  std::map<Snapshot, u32> ids;
  std::atomic<Snapshot*> chunks[kModeChunks]{};
  u32 count = 1;  // id 0: the default state
  std::set<std::pair<const ModulePath*, std::string>> names;
  std::map<std::pair<const ModulePath*, std::string>, ModulePath*> paths;
};
ModeTable& mode_table() {
  static ModeTable* t = new ModeTable;  // outlives static destructors
  return *t;
}

}  // namespace

const char* category_name(Category c) {
  static constexpr const char* kNames[kNumCategories] = {"other",     "parameter", "gradient",
                                                         "optimizer", "buffer",    "activation",
                                                         "workspace", "dataset"};
  return kNames[int(c)];
}

void intern_mode() {
  const Snapshot s{mode.stream, mode.determinism, mode.overrides, mode.module};
  if (s == Snapshot{}) {
    mode.id = 0;
    return;
  }
  ModeTable& t = mode_table();
  const std::lock_guard lock(t.mutex);
  auto [it, fresh] = t.ids.try_emplace(s, 0);
  if (fresh) {
    if (t.count == kModeChunk * kModeChunks) throw InternalError("more than 2^22 distinct modes");
    std::atomic<Snapshot*>& chunk = t.chunks[t.count / kModeChunk];
    if (!chunk.load(std::memory_order_relaxed))
      chunk.store(new Snapshot[kModeChunk], std::memory_order_release);
    chunk.load(std::memory_order_relaxed)[t.count % kModeChunk] = s;
    it->second = t.count++;
  }
  mode.id = it->second;
}

static Snapshot snapshot_of(u32 id) {
  static ModeTable& t = mode_table();
  if (id == 0) return {};
  return t.chunks[id / kModeChunk].load(std::memory_order_acquire)[id % kModeChunk];
}

void restore_mode(u32 id) {
  StreamState* const before = mode.stream;
  std::tie(mode.stream, mode.determinism, mode.overrides, mode.module) = snapshot_of(id);
  mode.slow = mode.overrides ? mode.slow | kSlowOverride : mode.slow & ~u32(kSlowOverride);
  mode.id = id;
  if (mode.stream != before) {
    mode.native_stream = mode.stream ? mode.stream->native : nullptr;
    detail::follow_stream(before, mode.stream);
  }
}

std::string to_string(const ModulePath* path) {
  if (!path) return {};
  std::string parent = to_string(path->parent);
  return parent.empty() ? path->name : parent + "." + path->name;
}

std::string describe_place(Frame own) {
  if (!mode.frame) return describe(own);
  Frame innermost = own;
  for (const ModuleCall* c = module_call; c && !is_users(innermost); c = c->outer)
    innermost = c->at;
  const std::string outer = describe(frame_of(mode.frame)), inner = describe(innermost);
  const std::string module = to_string(mode.module);
  return outer + (module.empty() ? "" : ", in " + module) +
         (is_users(innermost) && inner != outer ? " (" + inner + ")" : "");
}

// What std::make_unique() constructs was called in a header of the standard library.
std::string at_line() {
  const Frame own = mode.operand ? mode.operand->frame() : Frame{};
  const Frame outermost = mode.frame ? frame_of(mode.frame) : own;
  if (!outermost || std::strstr(outermost.file, "/include/c++/")) return {};
  return "\n  at " + describe_place(own);
}

std::string module_path_of(u32 id) { return to_string(std::get<3>(snapshot_of(id))); }

const ModulePath* intern_module_path(const ModulePath* parent, std::string_view name) {
  ModeTable& t = mode_table();
  const std::lock_guard lock(t.mutex);
  auto [it, fresh] = t.paths.try_emplace({parent, std::string(name)}, nullptr);
  if (fresh) it->second = new ModulePath{parent, it->first.second.c_str()};
  return it->second;
}

// --- SyncGuard ---
namespace {
std::string wait_text(const SyncGuard::Wait& w) {
  return str(w.what, " waits for ", to_string(w.device),
             w.at ? " at " + describe(w.at) : std::string());
}
}  // namespace

SyncGuard::SyncGuard(OnSync on)
    : on_before_(mode.on_sync),
      guard_before_(mode.sync_guard),
      waits_(std::make_unique<std::vector<Wait>>()) {
  mode.on_sync = on;
  mode.sync_guard = this;
}
SyncGuard::~SyncGuard() {
  mode.on_sync = on_before_;
  mode.sync_guard = guard_before_;
}
const std::vector<SyncGuard::Wait>& SyncGuard::waits() const { return *waits_; }
void SyncGuard::note(const char* what, Device d, Frame at) {
  const FrameId line = intern_frame(at);
  for (Wait& w : *waits_)
    if (intern_frame(w.at) == line && w.device == d && w.what == what) {
      ++w.count;
      return;
    }
  waits_->push_back({what, d, at, 1});
}

i64 SyncGuard::count() const {
  i64 n = 0;
  for (const Wait& w : *waits_) n += w.count;
  return n;
}

std::string SyncGuard::describe() const {
  std::string text;
  for (const Wait& w : *waits_)
    text += str(text.empty() ? "" : "\n", wait_text(w), ", ", w.count,
                w.count == 1 ? " time" : " times");
  return text;
}

void detail::before_wait(const char* what, Device d, Frame at) {
  if (mode.capture && d == mode.capture->device)  // the cpu's is save_graph()
    not_in_a_graph(what, "the host waits for the device", at);
  if (d.is_meta || d.kind == DeviceKind::cpu) return;
  const Frame line = is_users(at) || !mode.frame ? at : frame_of(mode.frame);
  if (mode.on_sync == OnSync::allow) return;
  if (mode.sync_guard) mode.sync_guard->note(what, d, line);
  if (mode.on_sync == OnSync::count) return;
  if (mode.on_sync == OnSync::error)
    throw UsageError(str("[", what, "] the host would wait for ", to_string(d),
                         " inside a SyncGuard\n  at ", describe_place(line)));
  const std::string text = "SyncGuard: " + wait_text({what, d, line, 1});
  warn_once(text, text);
}

InferenceMode::InferenceMode() : grad_before_(mode.grad), slow_before_(mode.slow) {
  mode.grad = false;
  mode.slow |= kSlowInference;
}
InferenceMode::~InferenceMode() {
  mode.grad = grad_before_;
  mode.slow = slow_before_;
}

SaveScope::SaveScope(SavePolicy p)
    : before_(mode.save), slow_before_((mode.slow & kSlowSaving) != 0) {
  mode.save = p;
  mode.slow |= kSlowSaving;
}
SaveScope::~SaveScope() {
  mode.save = before_;
  if (!slow_before_) mode.slow &= ~u32(kSlowSaving);
}

DeterminismScope::DeterminismScope(Determinism d) : before_(mode.determinism), id_before_(mode.id) {
  mode.determinism = d;
  intern_mode();
}
DeterminismScope::~DeterminismScope() {
  mode.determinism = before_;
  mode.id = id_before_;
}

ModuleScope::ModuleScope(const ModulePath* path, Cache& cache)
    : before_(mode.module), id_before_(mode.id) {
  mode.module = path;
  const u64 ids = cache.ids.load(std::memory_order_acquire);
  if (ids >> 32 == id_before_) {
    mode.id = u32(ids);
  } else {
    intern_mode();
    cache.ids.store(u64(id_before_) << 32 | mode.id, std::memory_order_release);
  }
}

// rank_: ranks are ints, and the half above has the lane of the mailboxes.
ModeCopy::ModeCopy() : copy_(mode) {
  const Generator child = generator().next_child();
  seed_ = child.seed();
  fork_ = child.fork();
  rank_ = u32(child.rank()) | u64(detail::mailbox_lane()) << 32;
}

void ModeCopy::adopt() const {
  static thread_local Generator adopted;
  adopted = Generator(seed_, fork_);
  adopted.set_rank(u32(rank_));
  detail::set_mailbox_lane(u32(rank_ >> 32));
  const u64 sequence = mode.sequence;
  mode = copy_;
  mode.generator = &adopted;
  mode.op = nullptr;
  mode.operand = nullptr;
  // These belong to scopes on the parent's stack.
  if (mode.recomputation) mode.save = SavePolicy::keep;
  mode.random_log = nullptr;
  mode.recomputation = nullptr;
  mode.autocast_cache = nullptr;
  mode.sync_guard = nullptr;
  mode.capture = nullptr;
  mode.sequence = sequence > copy_.sequence ? sequence : copy_.sequence;
}

}  // namespace wt
