// The timeline page: one file without network, whose data is safe in a script and complete.
#include "warptape/core/files/json.h"
#include "warptape/core/profile_trace.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using profiler::Event;
using profiler::Kind;
using profiler::TraceSource;

namespace {

constexpr char kBad[] = "</script><img src=x>&\"\\\n\xff";

std::string page_of(std::span<const TraceSource> ranks, profiler::TimelineOptions options = {}) {
  const TempDir dir;
  profiler::write_timeline(dir / "page.html", ranks, options);
  return slurp(dir / "page.html");
}

// Between the tags of the data.
std::string data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  return page.substr(at, page.find("</script>", at) - at);
}

// The numbers of all tracks' slices.
std::vector<i64> slices_of(const std::string& data) {
  std::vector<i64> numbers;
  for (size_t at = 0; (at = data.find("\"s\":[", at)) != data.npos;) {
    at += 5;
    JsonReader in(std::string_view(data).substr(at - 1), "slices");
    in.expect('[');
    if (in.accept(']')) continue;
    do numbers.push_back(std::stoll(in.scalar().text));
    while (in.accept(','));
  }
  return numbers;
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

Event event(const char* name, u32 id, i64 begin, i64 end) {
  Event e;
  e.kind = Kind::user, e.name = name, e.id = id, e.begin_ns = begin, e.end_ns = end;
  return e;
}

}  // namespace

TEST_CASE("timeline: one file for both schemes that asks nobody for anything") {
  const std::vector<Event> events{event("step", 1, 0, 100)};
  const TraceSource one[] = {{.events = events}};
  const std::string page = page_of(one, {.title = "a <b> & c", .subtitle = "x < y"});
  CHECK(page.starts_with("<!doctype html>"));
  for (const char* part : {"prefers-color-scheme:dark", "default-src 'none'", "id=\"search\"",
                           "<title>a &lt;b&gt; &amp; c</title>", "x &lt; y, warptape "})
    CHECK(mentions(page, part));
  for (const char* part :
       {"http://", "https://", "src=", "@import", "url(", "fetch(", "class=\"note\""})
    CHECK(count(page, part) == 0);
  CHECK(count(page, "<script") == 2);
  CHECK(count(page, "</script>") == 2);
}

TEST_CASE("timeline: the data is JSON in which no tag can begin") {
  std::vector<Event> events{event(kBad, 1, 0, 100), event("inner", 2, 10, 20)};
  events[0].allocated = 4096;
  const std::vector<std::string> threads{kBad};
  const TraceSource two[] = {{.events = events, .process = kBad, .threads = threads},
                             {.events = events, .rank = 1}};
  const std::string page = page_of(two, {.title = kBad, .subtitle = kBad});
  const std::string data = data_of(page);
  CHECK(count(data, "<") == 0);
  CHECK(count(page, "<img") == 0);
  JsonReader in(data, "data");
  in.skip_value();
  in.finish();
  CHECK(mentions(data, "\\u003c/script>"));
  CHECK(mentions(data, "\"p\":[100,4096]"));
}

TEST_CASE("timeline: slices as differences, what is inside of another behind it") {
  std::vector<Event> events{event("inner", 3, 1010, 1020), event("outer", 2, 1000, 1100),
                            event("late", 4, 1200, 1200)};
  const TraceSource one[] = {{.events = events}};
  CHECK(slices_of(data_of(page_of(one))) == std::vector<i64>{1000, 100, 0, 10, 10, 1, 190, 0, 2});
}

TEST_CASE("timeline: of too many ranges the longest, and the page says so") {
  std::vector<Event> events;
  for (u32 i = 0; i < 100; ++i) events.push_back(event("x", i + 1, i * 1000, i * 1000 + i % 50));
  const TraceSource one[] = {{.events = events, .dropped = 7}};
  const std::string page = page_of(one, {.most = 11});
  CHECK(slices_of(data_of(page)).size() == 3 * 11);
  CHECK(mentions(page, "Of 100 ranges the 11 longest are here: those of 0.044 microseconds"));
  CHECK(mentions(page, "The profile has lost 7 older ranges."));
  for (Event& e : events) e.end_ns = e.begin_ns + 5;  // all are as long
  CHECK(slices_of(data_of(page_of(one, {.most = 11}))).size() == 3 * 11);
}

TEST_CASE("timeline: arrows join the slices of the page") {
  std::vector<Event> events{event("relu", 1, 0, 10), event("relu", 2, 20, 30),
                            event("k", 3, 40, 50)};
  events[0].kind = Kind::op, events[1].kind = Kind::backward, events[2].kind = Kind::kernel;
  events[0].node = events[1].node = 5;
  events[2].device = Device::cuda(0);
  events[2].device_begin_ns = 60, events[2].device_end_ns = 90;
  const TraceSource one[] = {{.events = events}};
  const std::string data = data_of(page_of(one));
  CHECK(mentions(data, "\"arrows\":[0,1,0,2,3,1]"));
  CHECK(mentions(data, "\"name\":\"cuda:0, default stream\",\"flat\":1"));
}

TEST_CASE("timeline: work of the device alone is on its stream, joined to what queued it") {
  std::vector<Event> events{event("graph", 1, 0, 10), event("k", 2, 0, 0), event("l", 3, 0, 0)};
  for (Event& e : events) e.kind = Kind::kernel, e.device = Device::cuda(0);
  for (size_t i = 1; i < 3; ++i) {
    events[i].device_only = true;
    events[i].parent = 1;
    events[i].device_begin_ns = i64(10 * i), events[i].device_end_ns = i64(10 * i + 5);
  }
  const TraceSource one[] = {{.events = events}};
  const std::string data = data_of(page_of(one));
  CHECK(mentions(data, "\"name\":\"main thread\",\"flat\":0,\"s\":[0,10,0]"));
  CHECK(mentions(data, "\"flat\":1,\"s\":[10,5,1,10,5,2]"));
  CHECK(mentions(data, "\"arrows\":[0,1,1,0,2,1]"));
}
