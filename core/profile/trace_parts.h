// What trace and timeline page have in common: tracks, slices on them, arrows between slices and
// levels of memory. Internal.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

#include "warptape/core/profile_trace.h"

namespace wt::profiler {

struct Track {
  std::string name;
  bool device = false;  // a stream: kernels as the device ran them
};
// A stretch of a track, of event number `event` of the source.
struct Slice {
  u32 event = 0, track = 0;
  i64 begin = 0, end = 0;
};
enum class Arrow : u8 {
  tape,   // from an operator to the backward of its node
  launch  // from a launch to its kernel on the device
};
struct ArrowEnds {
  Arrow kind;
  // Events; of a launch the same one, on its thread and on its stream, or of work of the device
  // alone the range that queued it.
  u32 from, to;
};

class TraceParts {
 public:
  explicit TraceParts(const TraceSource& source);

  // Threads first, then streams.
  const std::vector<Track>& tracks() const { return tracks_; }
  const Event& event(u32 i) const { return source_.events[i]; }
  // Not of device_only events, which no thread has.
  Slice on_thread(u32 i) const;
  static constexpr u32 kNobody = ~u32{0};
  // The event that queued what the device did of event i; kNobody: it is not known.
  u32 launch_of(u32 i) const;
  // In the order of a stream's begins, which never overlap: measured times that do are cut.
  void for_each_on_device(const std::function<void(const Slice&)>& f) const;
  void for_each_arrow(const std::function<void(const ArrowEnds&)>& f) const;
  // In the order of time: device, time and the bytes that are held from then on.
  void for_each_level(const std::function<void(const Device&, i64, i64)>& f) const;

 private:
  const TraceSource& source_;
  std::vector<Track> tracks_;
  std::map<std::pair<std::string, void*>, u32> streams_;  // their tracks
  std::unordered_map<u32, u32> parents_;                  // of device_only events: id to event
  u32 track_of_stream(const Event& e) const;
  std::optional<u32> recorder_of(std::span<const u32> same, const Event& backward) const;
};

// The texts of events; what was asked for lately is not made again.
class TraceTexts {
 public:
  explicit TraceTexts(const TraceSource& source) : source_(source) {}
  const std::string& title(const Event& e);   // Range::title()
  const std::string& quoted(const Event& e);  // the same as JSON
  // ,"module":"net.fc1","line":"net.cpp:57": empty where neither is known.
  const std::string& place(const Event& e);
  // As JSON; empty where none is known.
  const std::string& shapes(const Event& e);

 private:
  using Key = std::tuple<int, const void*, const void*, u32, u32>;
  struct Hash {
    std::size_t operator()(const Key& k) const;
  };
  const TraceSource& source_;
  std::unordered_map<Key, std::string, Hash> texts_;
  const std::string& cached(const Key& key, const std::function<std::string()>& make);
};

const char* kind_name(Kind k);  // "operator", "backward", "kernel", "range"
bool is_on_device(const Event& e);
std::string shapes_of(const TraceSource& source, const Event& e);  // "": not known

// What to call a source beside others.
std::string process_name(const TraceSource& source, bool alone);
// UsageError for two sources of one rank, and for more events than a number of 32 bits counts.
void check_sources(std::span<const TraceSource> ranks);

}  // namespace wt::profiler
