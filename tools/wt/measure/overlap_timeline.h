// A training step over ranks as a picture: what each one computes and what its communicator does
// meanwhile. An SVG for a browser, light and dark; a Chrome/Perfetto trace (ui.perfetto.dev).
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::tools {

enum class SpanKind : u8 {
  forward,
  backward,
  step,    // the optimizer's update
  wait,    // for communication: exposed
  bucket,  // the all-reduce of one
  other,   // collectives of a few bytes
  chunk    // of a bucket, from one rank to another
};
const char* to_string(SpanKind k);

struct TimelineSpan {
  SpanKind kind{};
  int rank = 0;
  int number = -1;  // of the bucket
  int peer = -1;    // of a chunk: who gets it
  i64 bytes = 0;
  double from_us = 0, to_us = 0;  // since the step began
  double us() const { return to_us - from_us; }
};

struct OverlapTimeline {
  std::string title;  // what was trained, by whom
  std::string wires;  // the model of them
  int ranks = 0;
  std::vector<TimelineSpan> spans;
};

// Microseconds of the slowest rank in each.
struct OverlapTimes {
  double step = 0;           // from the first span to the last one
  double computation = 0;    // forward, backward, step
  double communication = 0;  // buckets, those that are under way at once counted once
  double exposed = 0;        // waited
};
OverlapTimes times_of(const OverlapTimeline& t);

// Two lanes a rank; boxes have titles with name, bytes and time.
std::string overlap_svg(const OverlapTimeline& t);
// "X" events, pid the rank, tid 1 computation, 2 communication, 3 chunks.
std::string overlap_trace(const OverlapTimeline& t);

}  // namespace wt::tools
