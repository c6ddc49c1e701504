// A profile along time: as a trace that Perfetto and chrome://tracing open, and as a page of our
// own.
//
//   const profiler::Profile p = profiler::profile([&] { step(batch, loss_of); });
//   profiler::write_trace("step.json", p);
//   profiler::write_timeline("step.html", p, {.title = "one step"});
//
// A track a thread and a stream, a process a rank. Names are those of Range::title(). Arrows lead
// from an operator to the backward of the node that it recorded, and from a launch to its kernel on
// the device. docs/traces.md shows both.
#pragma once
#include <span>
#include <string>
#include <utility>

#include "warptape/core/profile.h"

namespace wt::profiler {

// What one process, which is one rank, has recorded. Only looked at: it must outlive the call.
struct TraceSource {
  std::span<const Event> events;              // in any order
  int rank = 0;                               // no two sources have the same
  std::string process = "warptape";           // its name
  std::span<const std::string> threads = {};  // names by Event::thread; others are "thread 3"
  std::span<const std::string> shapes = {};   // texts by Event::shapes
  i64 dropped = 0;                            // ranges that the profile lost
};
// Of the profile `p`, which must outlive it.
inline TraceSource trace_source(const Profile& p, int rank = 0, std::string process = "warptape") {
  return {p.events(), rank, std::move(process), p.threads(), p.shapes(), p.dropped()};
}

// The JSON array format of Chrome's trace events, in microseconds: complete events ("X") with
// module, line, variant, bytes, flops, shapes and memory as args, flows ("s", "f"), a counter of
// memory a device ("C"), names ("M"). The counter is what the profiled ranges hold, from 0 at the
// beginning; it is negative where they have released more.
//
// The text is never held: beside the events the writer needs 4 bytes an event, of which it sorts
// the numbers, and 2 MiB. A file has about 300 bytes an event. UsageError for two sources of one
// rank, CheckpointError where the file cannot be written: an old one stays.
WT_API void write_trace(const std::string& path, std::span<const TraceSource> ranks);
inline void write_trace(const std::string& path, const Profile& p) {
  const TraceSource one[] = {trace_source(p)};
  write_trace(path, one);
}

struct TimelineOptions {
  std::string title = "Timeline";
  std::string subtitle = {};  // command, device, date
  i64 most = 200'000;         // ranges on the page; of more the longest, and the page says so
};

// One HTML file without network, for light and dark: zoom (wheel, + and -), pan (drag, arrows),
// search by any word of a range, details of what is under the pointer and of what is selected.
// Memory: 16 bytes an event, and the page. Errors as write_trace.
WT_API void write_timeline(const std::string& path, std::span<const TraceSource> ranks,
                           const TimelineOptions& options = {});
inline void write_timeline(const std::string& path, const Profile& p,
                           const TimelineOptions& options = {}) {
  const TraceSource one[] = {trace_source(p)};
  write_timeline(path, one, options);
}

}  // namespace wt::profiler
