#include "warptape/tools/wt/measure/overlap_timeline.h"

#include <algorithm>

#include "warptape/core/files/json.h"
#include "warptape/core/str.h"

namespace wt::tools {
namespace {

constexpr const char* kThreads[] = {"computation", "communication", "chunks"};

int thread_of(SpanKind k) {
  switch (k) {
    case SpanKind::bucket:
    case SpanKind::other:
      return 2;
    case SpanKind::chunk:
      return 3;
    default:
      return 1;
  }
}

std::string name_of(const TimelineSpan& s) {
  switch (s.kind) {
    case SpanKind::bucket:
      return str("bucket ", s.number);
    case SpanKind::chunk:
      return str("bucket ", s.number, ", chunk to rank ", s.peer);
    case SpanKind::other:
      return str("all_reduce of ", s.bytes, " B");
    default:
      return to_string(s.kind);
  }
}

// Of intervals, what overlaps counted once.
double covered(std::vector<std::pair<double, double>> parts) {
  std::sort(parts.begin(), parts.end());
  double all = 0, until = 0;
  bool first = true;
  for (const auto& [from, to] : parts) {
    const double begin = first ? from : std::max(from, until);
    if (to > begin) all += to - begin;
    until = first ? to : std::max(until, to);
    first = false;
  }
  return all;
}

double of_rank(const OverlapTimeline& t, int rank, std::initializer_list<SpanKind> kinds) {
  std::vector<std::pair<double, double>> parts;
  for (const TimelineSpan& s : t.spans)
    if (s.rank == rank && std::find(kinds.begin(), kinds.end(), s.kind) != kinds.end())
      parts.emplace_back(s.from_us, s.to_us);
  return covered(std::move(parts));
}

std::string metadata(const char* what, int rank, int thread, const std::string& name) {
  JsonObject j;
  j.add("name", what).add("ph", "M").add("pid", rank).add("tid", thread);
  j.add_raw("args", JsonObject().add("name", name).str());
  return j.str();
}

std::string event(const TimelineSpan& s) {
  JsonObject args;
  if (s.number >= 0) args.add("bucket", s.number);
  if (s.bytes > 0) args.add("bytes", s.bytes);
  if (s.peer >= 0) args.add("to", s.peer);
  JsonObject j;
  j.add("name", name_of(s)).add("cat", to_string(s.kind)).add("ph", "X");
  j.add("ts", s.from_us).add("dur", s.us()).add("pid", s.rank).add("tid", thread_of(s.kind));
  return j.add_raw("args", args.str()).str();
}

}  // namespace

const char* to_string(SpanKind k) {
  switch (k) {
    case SpanKind::forward:
      return "forward";
    case SpanKind::backward:
      return "backward";
    case SpanKind::step:
      return "step";
    case SpanKind::wait:
      return "wait";
    case SpanKind::bucket:
      return "bucket";
    case SpanKind::other:
      return "other";
    case SpanKind::chunk:
      return "chunk";
  }
  return "?";
}

OverlapTimes times_of(const OverlapTimeline& t) {
  OverlapTimes o;
  if (t.spans.empty()) return o;
  double from = t.spans[0].from_us, to = t.spans[0].to_us;
  for (const TimelineSpan& s : t.spans)
    from = std::min(from, s.from_us), to = std::max(to, s.to_us);
  o.step = to - from;
  for (int r = 0; r < t.ranks; ++r) {
    o.computation = std::max(
        o.computation, of_rank(t, r, {SpanKind::forward, SpanKind::backward, SpanKind::step}));
    o.communication = std::max(o.communication, of_rank(t, r, {SpanKind::bucket}));
    o.exposed = std::max(o.exposed, of_rank(t, r, {SpanKind::wait}));
  }
  return o;
}

std::string overlap_trace(const OverlapTimeline& t) {
  std::string events;
  const auto add = [&](const std::string& e) { events += (events.empty() ? "\n" : ",\n") + e; };
  for (int r = 0; r < t.ranks; ++r) {
    add(metadata("process_name", r, 0, str("rank ", r)));
    for (int thread = 1; thread <= 3; ++thread)
      add(metadata("thread_name", r, thread, kThreads[thread - 1]));
  }
  for (const TimelineSpan& s : t.spans) add(event(s));
  return str("{\"displayTimeUnit\":\"ms\",\"otherData\":",
             JsonObject().add("title", t.title).add("wires", t.wires).str(), ",\"traceEvents\":[",
             events, "\n]}\n");
}

}  // namespace wt::tools
