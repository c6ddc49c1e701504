#include "warptape/core/profile/trace_parts.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/core/str.h"

namespace wt::profiler {
namespace {

constexpr std::size_t kTexts = 65536;  // that are kept: about 8 MiB at the most

// The numbers of the events that `wanted` takes, sorted by `before`.
template <class Wanted, class Before>
std::vector<u32> sorted_events(std::span<const Event> events, const Wanted& wanted,
                               const Before& before) {
  std::vector<u32> which;
  which.reserve(std::size_t(std::count_if(events.begin(), events.end(), wanted)));
  for (u32 i = 0; i < events.size(); ++i)
    if (wanted(events[i])) which.push_back(i);
  std::sort(which.begin(), which.end(), [&](u32 a, u32 b) { return before(events[a], events[b]); });
  return which;
}

Range range_of(const Event& e) {
  return {.kind = e.kind,
          .name = e.name ? e.name : "",
          .variant = e.variant,
          .op = e.op,
          .frame = e.frame,
          .mode_id = e.mode_id,
          .device = e.device,
          .stream = e.stream};
}

}  // namespace

const char* kind_name(Kind k) {
  switch (k) {
    case Kind::op:
      return "operator";
    case Kind::backward:
      return "backward";
    case Kind::kernel:
      return "kernel";
    case Kind::user:
      return "range";
  }
  return "?";
}

std::string shapes_of(const TraceSource& source, const Event& e) {
  return e.shapes < source.shapes.size() ? source.shapes[e.shapes] : "";
}

bool is_on_device(const Event& e) { return e.device_end_ns > e.device_begin_ns; }

std::string process_name(const TraceSource& source, bool alone) {
  return alone ? source.process : str("rank ", source.rank, ": ", source.process);
}

void check_sources(std::span<const TraceSource> ranks) {
  std::set<int> seen;
  for (const TraceSource& s : ranks) {
    if (!seen.insert(s.rank).second)
      throw UsageError(str("[profiler] two sources of a trace are of rank ", s.rank));
    if (s.events.size() >= std::numeric_limits<u32>::max())
      throw UsageError(str("[profiler] a trace of ", s.events.size(),
                           " ranges: at most 4294967294 of one rank"));
  }
}

TraceParts::TraceParts(const TraceSource& source) : source_(source) {
  u32 threads = 1;
  for (const Event& e : source.events) {
    threads = std::max(threads, e.thread + 1);
    if (is_on_device(e)) streams_.emplace(std::pair(to_string(e.device), e.stream), 0);
    if (e.device_only && e.parent) parents_.emplace(e.parent, kNobody);
  }
  if (!parents_.empty())
    for (u32 i = 0; i < source.events.size(); ++i)
      if (const auto at = parents_.find(source.events[i].id); at != parents_.end()) at->second = i;
  for (u32 t = 0; t < threads; ++t)
    tracks_.push_back({t < source.threads.size() && !source.threads[t].empty() ? source.threads[t]
                       : t == 0                                                ? "main thread"
                                : str("thread ", t)});
  std::map<std::string, int> numbers;  // of a device's streams beside the default one
  for (auto& [stream, track] : streams_) {
    track = u32(tracks_.size());
    const std::string name =
        stream.second ? str("stream ", ++numbers[stream.first]) : std::string("default stream");
    tracks_.push_back({stream.first + ", " + name, true});
  }
}

u32 TraceParts::launch_of(u32 i) const {
  if (!event(i).device_only) return i;
  const auto at = parents_.find(event(i).parent);
  return at == parents_.end() ? kNobody : at->second;
}

u32 TraceParts::track_of_stream(const Event& e) const {
  return streams_.at({to_string(e.device), e.stream});
}

Slice TraceParts::on_thread(u32 i) const {
  const Event& e = event(i);
  return {i, e.thread, e.begin_ns, std::max(e.begin_ns, e.end_ns)};
}

void TraceParts::for_each_on_device(const std::function<void(const Slice&)>& f) const {
  const std::vector<u32> order =
      sorted_events(source_.events, is_on_device, [](const Event& a, const Event& b) {
        return std::tuple(a.device_begin_ns, a.id) < std::tuple(b.device_begin_ns, b.id);
      });
  std::map<u32, i64> busy_until;
  for (const u32 i : order) {
    const Event& e = event(i);
    const u32 track = track_of_stream(e);
    i64& until = busy_until.emplace(track, std::numeric_limits<i64>::min()).first->second;
    const i64 begin = std::max(e.device_begin_ns, until);
    until = std::max(begin, e.device_end_ns);
    f({i, track, begin, until});
  }
}

// Of ranges with one number, operators first, the operator that recorded the backward's node. A
// number is a thread's, but a backward may run on another one. Of operators within an operator that
// name the same node: the one that it is of, else the outermost.
std::optional<u32> TraceParts::recorder_of(std::span<const u32> same, const Event& backward) const {
  std::optional<u32> best;
  int best_fit = -1;
  for (const u32 i : same) {
    const Event& e = event(i);
    if (e.kind != Kind::op) break;
    const int fit = 2 * (e.thread == backward.thread) + (e.op == backward.op);
    if (fit > best_fit) best = i, best_fit = fit;
  }
  return best;
}

void TraceParts::for_each_arrow(const std::function<void(const ArrowEnds&)>& f) const {
  const std::vector<u32> by_node = sorted_events(
      source_.events,
      [](const Event& e) { return e.node && (e.kind == Kind::op || e.kind == Kind::backward); },
      [](const Event& a, const Event& b) {
        return std::tuple(a.node, a.kind, a.begin_ns, a.id) <
               std::tuple(b.node, b.kind, b.begin_ns, b.id);
      });
  for (std::size_t at = 0; at < by_node.size();) {
    const std::size_t first = at;
    // A node that two backwards run has two arrows.
    for (const u64 node = event(by_node[at]).node;
         at < by_node.size() && event(by_node[at]).node == node; ++at)
      if (event(by_node[at]).kind == Kind::backward)
        if (const std::optional<u32> from =
                recorder_of(std::span(by_node).subspan(first, at - first), event(by_node[at])))
          f({Arrow::tape, *from, by_node[at]});
  }
  for (u32 i = 0; i < source_.events.size(); ++i)
    if (is_on_device(event(i)) && launch_of(i) != kNobody) f({Arrow::launch, launch_of(i), i});
}

void TraceParts::for_each_level(const std::function<void(const Device&, i64, i64)>& f) const {
  const std::vector<u32> by_end = sorted_events(
      source_.events, [](const Event& e) { return e.allocated != e.released; },
      [](const Event& a, const Event& b) {
        return std::tuple(a.end_ns, a.id) < std::tuple(b.end_ns, b.id);
      });
  std::map<std::string, i64> held;
  for (const u32 i : by_end) {
    const Event& e = event(i);
    i64& level = held[to_string(e.device)];
    level += e.allocated - e.released;
    f(e.device, e.end_ns, level);
  }
}

std::size_t TraceTexts::Hash::operator()(const Key& k) const {
  const auto& [what, a, b, c, d] = k;
  u64 h = u64(what);
  for (const u64 part : {u64(reinterpret_cast<std::uintptr_t>(a)),
                         u64(reinterpret_cast<std::uintptr_t>(b)), u64(c), u64(d)})
    h = (h ^ part) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
  return std::size_t(h);
}

const std::string& TraceTexts::cached(const Key& key, const std::function<std::string()>& make) {
  const auto found = texts_.find(key);
  if (found != texts_.end()) return found->second;
  if (texts_.size() >= kTexts) texts_.clear();
  return texts_.emplace(key, make()).first->second;
}

const std::string& TraceTexts::title(const Event& e) {
  return cached({int(e.kind), e.name, e.variant, e.frame, e.mode_id},
                [&] { return range_of(e).title(); });
}

const std::string& TraceTexts::quoted(const Event& e) {
  return cached({-3 - int(e.kind), e.name, e.variant, e.frame, e.mode_id},
                [&] { return json_quote(range_of(e).title()); });
}

const std::string& TraceTexts::place(const Event& e) {
  return cached({-1, nullptr, nullptr, e.frame, e.mode_id}, [&] {
    std::string text;
    if (const std::string module = module_path_of(e.mode_id); !module.empty())
      text += ",\"module\":" + json_quote(module);
    if (e.frame) text += ",\"line\":" + json_quote(describe_frame(e.frame));
    return text;
  });
}

const std::string& TraceTexts::shapes(const Event& e) {
  return cached({-2, nullptr, nullptr, e.shapes, 0}, [&] {
    const std::string text = shapes_of(source_, e);
    return text.empty() ? text : json_quote(text);
  });
}

}  // namespace wt::profiler
