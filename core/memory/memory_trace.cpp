#include "warptape/core/memory_trace.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "warptape/core/error.h"
#include "warptape/core/memory/asker.h"

namespace wt::memory {

std::string Holder::title() const {
  if (before) return str(category_name(category), ", from before");
  const OpInfo* asked = backward ? backward : op;
  const std::string module = module_path_of(mode_id);
  std::string text = module;
  if (asked) text += str(module.empty() ? "" : ".", asked->name, backward ? ".backward" : "");
  if (text.empty()) text = category_name(category);
  return frame ? str(text, " <- ", describe_frame(frame)) : text;
}

struct Trace::Recorder final : profiler::Observer {
  using Key = std::tuple<Category, const OpInfo*, const OpInfo*, u32, FrameId, bool>;
  struct Event {
    u32 holder;
    i64 bytes;  // released: negative
  };

  Device device;
  bool history;
  mutable std::mutex mutex;
  std::map<Key, u32> numbers{};
  std::vector<Holder> holders{};  // with what each holds now
  std::unordered_map<const void*, u32> blocks{};
  std::vector<Event> events{};
  Level first{}, level{};
  bool lost = false;  // there was no memory to remember something

  Recorder(Device d, bool h) : device(d), history(h) {}

  u32 holder_of(const Holder& h) {
    const Key key{h.category, h.op, h.backward, h.mode_id, h.frame, h.before};
    const auto [at, fresh] = numbers.try_emplace(key, u32(holders.size()));
    if (fresh) holders.push_back(h);
    return at->second;
  }
  void count(u32 holder, i64 bytes) {
    if (history) events.push_back({holder, bytes});
    Holder& h = holders[holder];
    h.bytes += bytes;
    h.blocks += bytes < 0 ? -1 : 1;
    level.bytes += bytes;
    level.by_category[size_t(h.category)] += bytes;
  }
  void allocated(const profiler::Memory& m) noexcept override {
    if (!(m.device == device) || m.bytes == 0) return;
    const std::lock_guard lock(mutex);
    try {
      const profiler::Asker who = profiler::asker();
      const u32 holder = holder_of({m.category, m.owner, who.backward, m.mode_id, who.frame});
      blocks[m.storage] = holder;
      count(holder, m.bytes);
    } catch (...) {
      lost = true;
    }
  }
  void released(const profiler::Memory& m) noexcept override {
    if (!(m.device == device) || m.bytes == 0) return;
    const std::lock_guard lock(mutex);
    try {
      const auto at = blocks.find(m.storage);
      if (at != blocks.end()) {
        count(at->second, -m.bytes);
        blocks.erase(at);
        return;
      }
      const u32 before = holder_of({.category = m.category, .before = true});
      // More than there was: of a thread that had run no operator since the trace began.
      if (holders[before].bytes >= m.bytes) count(before, -m.bytes);
    } catch (...) {
      lost = true;
    }
  }

  void check(const char* what) const {
    if (!history)
      throw UsageError(str("[memory::Trace] ", what, " needs the history, which this trace was ",
                           "told not to keep"));
    if (lost) throw OutOfMemory("[memory::Trace] there was no memory for what happened");
  }
  void apply(Level& l, const Event& e) const {
    l.bytes += e.bytes;
    l.by_category[size_t(holders[e.holder].category)] += e.bytes;
  }
  // Of the first event after which the level was the highest; -1: before all.
  i64 highest() const {
    i64 at = -1, most = first.bytes, bytes = most;
    for (size_t i = 0; i < events.size(); ++i) {
      bytes += events[i].bytes;
      if (bytes > most) most = bytes, at = i64(i);
    }
    return at;
  }
};

Trace::Trace(Device d, TraceOptions options)
    : recorder_(std::make_unique<Recorder>(d, options.history)) {
  Recorder& r = *recorder_;
  const Stats s = stats(d);
  r.first.bytes = s.live;
  for (int c = 0; c < kNumCategories; ++c) {
    r.first.by_category[size_t(c)] = s.by_category[c];
    if (s.by_category[c] == 0) continue;
    const u32 n = r.holder_of({.category = Category(c), .before = true});
    r.holders[n].bytes = s.by_category[c];
  }
  r.level = r.first;
  watch_ = std::make_unique<profiler::ObserverScope>(r);
}

Trace::~Trace() = default;

Level Trace::now() const {
  const std::lock_guard lock(recorder_->mutex);
  return recorder_->level;
}

i64 Trace::events() const {
  const std::lock_guard lock(recorder_->mutex);
  return i64(recorder_->events.size());
}

Level Trace::peak() const {
  const Recorder& r = *recorder_;
  const std::lock_guard lock(r.mutex);
  r.check("peak()");
  Level l = r.first;
  const i64 last = r.highest();
  for (i64 i = 0; i <= last; ++i) r.apply(l, r.events[size_t(i)]);
  return l;
}

static std::vector<Holder> largest_first(std::vector<Holder> all) {
  std::erase_if(all, [](const Holder& h) { return h.bytes == 0; });
  std::stable_sort(all.begin(), all.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return all;
}

std::vector<Holder> Trace::at_peak() const {
  const Recorder& r = *recorder_;
  const std::lock_guard lock(r.mutex);
  r.check("at_peak()");
  std::vector<Holder> all = r.holders;
  const auto first = size_t(r.highest() + 1);
  for (size_t i = r.events.size(); i-- > first;) {  // back from now
    const Recorder::Event& e = r.events[i];
    all[e.holder].bytes -= e.bytes;
    all[e.holder].blocks -= e.bytes < 0 ? -1 : 1;
  }
  return largest_first(std::move(all));
}

std::vector<Holder> Trace::live() const {
  const std::lock_guard lock(recorder_->mutex);
  std::vector<Holder> all = recorder_->holders;
  std::erase_if(all, [](const Holder& h) { return h.before; });
  return largest_first(std::move(all));
}

std::vector<Level> Trace::timeline(i64 columns) const {
  const Recorder& r = *recorder_;
  const std::lock_guard lock(r.mutex);
  r.check("timeline()");
  const i64 n = i64(r.events.size());
  columns = std::clamp<i64>(columns, 1, std::max<i64>(n, 1));
  std::vector<Level> out;
  Level l = r.first;
  if (n == 0) return {l};
  for (i64 c = 0; c < columns; ++c) {
    Level highest{.bytes = -1};
    for (i64 i = n * c / columns; i < n * (c + 1) / columns; ++i) {
      r.apply(l, r.events[size_t(i)]);
      if (l.bytes > highest.bytes) highest = l;
    }
    out.push_back(highest);
  }
  return out;
}

}  // namespace wt::memory
