// The overlap picture and trace of a step made by hand: two ranks, two buckets, of which the second
// ends after the backward.
#include "warptape/tools/wt/measure/overlap_timeline.h"

#include "warptape/core/files/json.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::tools;

namespace {

TimelineSpan span(SpanKind kind, int rank, double from, double to, int number = -1, i64 bytes = 0) {
  TimelineSpan s;
  s.kind = kind, s.rank = rank, s.from_us = from, s.to_us = to, s.number = number, s.bytes = bytes;
  return s;
}

OverlapTimeline two_ranks() {
  OverlapTimeline t;
  t.title = "two <ranks> & buckets", t.wires = "1 GB/s", t.ranks = 2;
  for (int r = 0; r < 2; ++r) {
    t.spans.push_back(span(SpanKind::forward, r, 0, 1000));
    t.spans.push_back(span(SpanKind::backward, r, 1000, 3000));
    t.spans.push_back(span(SpanKind::wait, r, 3000, r ? 3500 : 3600));
    t.spans.push_back(span(SpanKind::step, r, r ? 3500 : 3600, 4000));
    t.spans.push_back(span(SpanKind::bucket, r, 1500, 2500, 0, 1 << 20));
    t.spans.push_back(span(SpanKind::bucket, r, 2400, 3500, 1, 2 << 20));  // 100 us of both at once
    t.spans.push_back(span(SpanKind::other, r, 3510, 3520, -1, 8));
  }
  TimelineSpan chunk = span(SpanKind::chunk, 0, 1500, 2000, 0, 4096);
  chunk.peer = 1;
  t.spans.push_back(chunk);
  return t;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Reads the whole trace as JSON; how many events have "ph" so.
size_t events_of(const std::string& trace, const std::string& wanted) {
  JsonReader in(trace, "trace");
  size_t n = 0;
  in.expect('{');
  do {
    const std::string key = in.string();
    in.expect(':');
    if (key != "traceEvents") {
      in.skip_value();
      continue;
    }
    in.expect('[');
    do {
      in.expect('{');
      do {
        const std::string field = in.string();
        in.expect(':');
        if (field == "args")
          in.skip_value();
        else if (const JsonScalar v = in.scalar(); field == "ph")
          n += v.text == wanted;
      } while (in.accept(','));
      in.expect('}');
    } while (in.accept(','));
    in.expect(']');
  } while (in.accept(','));
  in.expect('}');
  in.finish();
  return n;
}

}  // namespace

TEST_CASE("overlap_timeline: times are the slowest rank's, what is at once counted once") {
  const OverlapTimes t = times_of(two_ranks());
  REQUIRE(t.step == 4000);
  REQUIRE(t.computation == 1000 + 2000 + 500);  // rank 1's
  REQUIRE(t.communication == 2000);             // 1500 to 3500
  REQUIRE(t.exposed == 600);                    // rank 0's
  REQUIRE(times_of({}).step == 0);
}

TEST_CASE("overlap_timeline: the trace has an event for every span, by rank and lane") {
  const OverlapTimeline t = two_ranks();
  const std::string trace = overlap_trace(t);
  REQUIRE(events_of(trace, "X") == t.spans.size());
  REQUIRE(events_of(trace, "M") == 2 * 4);
  REQUIRE(mentions(trace, R"({"name":"bucket 1","cat":"bucket","ph":"X","ts":2400,"dur":1100,)"
                          R"("pid":1,"tid":2,"args":{"bucket":1,"bytes":2097152}})"));
  REQUIRE(mentions(trace, R"("name":"bucket 0, chunk to rank 1","cat":"chunk","ph":"X","ts":1500,)"
                          R"("dur":500,"pid":0,"tid":3,"args":{"bucket":0,"bytes":4096,"to":1}})"));
  REQUIRE(mentions(trace, R"("title":"two <ranks> & buckets","wires":"1 GB/s")"));
  REQUIRE(mentions(overlap_trace({}), "\"traceEvents\":[\n]}"));
}

TEST_CASE("overlap_timeline: the picture has lanes, boxes in proportion, and a legend") {
  const std::string svg = overlap_svg(two_ranks());
  REQUIRE(svg.starts_with("<svg "));
  REQUIRE(svg.ends_with("</svg>\n"));
  REQUIRE(mentions(svg, "two &lt;ranks&gt; &amp; buckets"));
  REQUIRE(svg.find("two <ranks>") == svg.npos);
  REQUIRE(mentions(svg,
                   "step 4.00 ms: computation 3.50 ms, communication 2.00 ms, 0.60 ms of waiting"));
  REQUIRE(mentions(svg, "prefers-color-scheme:dark"));
  // Two lanes a rank and one for its chunks.
  REQUIRE(count(svg, "class=\"lane\"") == 6);
  REQUIRE(count(svg, "computes</text>") == 2);
  REQUIRE(count(svg, "sends chunks</text>") == 2);
  // Each span and its key: 950 px are 4,000 us.
  REQUIRE(count(svg, "class=\"b0\"") == 3 + 1);
  REQUIRE(count(svg, "class=\"b1\"") == 2 + 1);
  REQUIRE(mentions(svg, "class=\"forward\" x=\"150.0\""));
  REQUIRE(count(svg, "width=\"237.5\"") == 2 + 2);  // forward, and bucket 0 (1,000 us each)
  REQUIRE(mentions(svg, "<title>other, 8 B: 0.010 ms</title>"));
  REQUIRE(mentions(svg, "<title>bucket 1, 2048 KiB: 1.100 ms</title>"));
}

TEST_CASE("overlap_timeline: without chunks there is no lane for them, without spans a picture") {
  OverlapTimeline t = two_ranks();
  t.spans.pop_back();
  REQUIRE(count(overlap_svg(t), "class=\"lane\"") == 4);
  REQUIRE(overlap_svg({}).ends_with("</svg>\n"));
}
