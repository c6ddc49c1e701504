// Traces by the rules of the trace event format: phases, times, nesting on each track, names of
// tracks, both ends of every arrow.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/core/profile_trace.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using profiler::Event;
using profiler::Kind;
using profiler::TraceSource;

namespace {

struct Value {
  std::map<std::string, Value> fields{};
  std::string text{};  // of scalars
  bool is_string = false;

  bool has(const std::string& key) const { return fields.count(key) > 0; }
  const Value& operator[](const std::string& key) const {
    INFO(key);
    REQUIRE(has(key));
    return fields.at(key);
  }
  i64 number() const { return std::stoll(text); }
  i64 ns() const { return std::llround(std::stod(text) * 1000); }
};

Value read_value(JsonReader& in) {
  Value v;
  if (in.peek() == '{') {
    in.expect('{');
    if (in.accept('}')) return v;
    do {
      const std::string key = in.string();
      in.expect(':');
      CHECK_FALSE(v.has(key));
      v.fields[key] = read_value(in);
    } while (in.accept(','));
    in.expect('}');
    return v;
  }
  v.is_string = in.peek() == '"';
  v.text = in.scalar().text;
  return v;
}

std::vector<Value> read_events(const std::string& text) {
  JsonReader in(text, "trace");
  std::vector<Value> events;
  in.expect('{');
  do {
    const std::string key = in.string();
    in.expect(':');
    if (key != "traceEvents") {
      in.skip_value();
      continue;
    }
    in.expect('[');
    do events.push_back(read_value(in));
    while (in.accept(','));
    in.expect(']');
  } while (in.accept(','));
  in.expect('}');
  in.finish();
  return events;
}

using Place = std::pair<std::string, std::string>;  // pid, tid
Place place_of(const Value& e) { return {e["pid"].text, e["tid"].text}; }

struct Span {
  i64 begin, end;
};
bool is_inside(i64 at, const std::vector<Span>& spans) {
  return std::any_of(spans.begin(), spans.end(),
                     [&](const Span& s) { return s.begin <= at && at <= s.end; });
}

void check_nesting(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
  });
  std::vector<i64> open;
  for (const Span& s : spans) {
    while (!open.empty() && open.back() <= s.begin) open.pop_back();
    if (!open.empty()) CHECK(s.end <= open.back());
    open.push_back(s.end);
  }
}

// Everything that holds for each trace.
void check_rules(const std::vector<Value>& events) {
  std::map<Place, std::vector<Span>> tracks;
  std::map<std::string, int> processes;
  std::map<Place, int> names;
  std::map<std::string, std::vector<const Value*>> arrows;  // by id
  std::map<Place, i64> counted;  // pid and name of a counter: its last time
  for (const Value& e : events) {
    const std::string ph = e["ph"].text;
    CHECK(e["name"].is_string);
    CHECK(e["pid"].number() >= 0);
    CHECK(e["tid"].number() >= 0);
    if (ph == "M") {
      if (e["name"].text == "process_name") ++processes[e["pid"].text];
      if (e["name"].text == "thread_name") ++names[place_of(e)];
      CHECK(e["args"].has(mentions(e["name"].text, "sort") ? "sort_index" : "name"));
      continue;
    }
    const i64 at = e["ts"].ns();
    if (ph == "X") {
      CHECK(e["dur"].ns() >= 0);
      tracks[place_of(e)].push_back({at, at + e["dur"].ns()});
    } else if (ph == "C") {
      CHECK_FALSE(e["args"]["bytes"].is_string);
      const auto [last, first] = counted.emplace(Place{e["pid"].text, e["name"].text}, at);
      CHECK((first || at >= last->second));
      last->second = at;
    } else {
      CHECK((ph == "s" || ph == "f"));
      arrows[e["id"].text].push_back(&e);
    }
  }
  for (const auto& [place, spans] : tracks) {
    CHECK(names[place] == 1);
    CHECK(processes[place.first] == 1);
    check_nesting(spans);
  }
  for (const auto& [id, ends] : arrows) {
    INFO("arrow " << id);
    REQUIRE(ends.size() == 2);
    const Value &from = *ends[0], &to = *ends[1];
    CHECK(from["ph"].text == "s");
    CHECK(to["ph"].text == "f");
    CHECK(to["bp"].text == "e");
    CHECK(from["name"].text == to["name"].text);
    CHECK(from["cat"].text == to["cat"].text);
    CHECK(from["ts"].ns() <= to["ts"].ns());
    CHECK(is_inside(from["ts"].ns(), tracks[place_of(from)]));
    CHECK(is_inside(to["ts"].ns(), tracks[place_of(to)]));
  }
}

std::vector<Value> trace_of(std::span<const TraceSource> ranks) {
  const TempDir dir;
  profiler::write_trace(dir / "trace.json", ranks);
  CHECK(dir.count() == 1);
  std::vector<Value> events = read_events(slurp(dir / "trace.json"));
  check_rules(events);
  return events;
}

const Value* find(const std::vector<Value>& events, const std::string& ph,
                  const std::string& name) {
  for (const Value& e : events)
    if (e["ph"].text == ph && e["name"].text == name) return &e;
  return nullptr;
}
int count(const std::vector<Value>& events, const std::string& ph, const std::string& name) {
  return int(std::count_if(events.begin(), events.end(), [&](const Value& e) {
    return e["ph"].text == ph && e["name"].text == name;
  }));
}

Event event(Kind kind, const char* name, i64 begin, i64 end) {
  static u32 id = 0;
  Event e;
  e.kind = kind, e.name = name, e.begin_ns = begin, e.end_ns = end, e.id = ++id;
  return e;
}
Event on_device(Event e, void* stream, i64 begin, i64 end) {
  e.device = Device::cuda(0), e.stream = stream;
  e.device_begin_ns = begin, e.device_end_ns = end;
  return e;
}

struct Net : nn::Module<Net> {
  nn::Linear fc = add("fc", nn::Linear{3, 2});
  Tensor forward(const Tensor& x) { return relu(fc(x)); }
};

}  // namespace

TEST_CASE("trace: a step, from forward to backward to kernels, with the names that errors use") {
  for (const Device d : wt_test::kernel_devices()) {
    Net net;
    net.to(d);
    const Tensor x = ones({5, 3}, {.device = d});
    const int line = __LINE__ + 4;
    const profiler::Profile p = profiler::profile(
        [&] {
          const auto whole = profiler::range("a \"step\"");
          net(x).sum().backward();
        },
        {.shapes = true});
    const TraceSource source[] = {profiler::trace_source(p)};
    const std::vector<Value> events = trace_of(source);
    const std::string at = " <- trace_events_test.cpp:" + std::to_string(line);
    const Value* forward = find(events, "X", "fc.linear" + at);
    const Value* backward = find(events, "X", "fc.linear.backward" + at);
    REQUIRE(forward);
    REQUIRE(backward);
    CHECK((*forward)["cat"].text == "operator");
    CHECK((*forward)["args"]["module"].text == "fc");
    CHECK((*forward)["args"]["line"].text == "trace_events_test.cpp:" + std::to_string(line));
    CHECK(mentions((*forward)["args"]["shapes"].text, "[5, 3]"));
    CHECK((*forward)["args"]["node"].text == (*backward)["args"]["node"].text);
    CHECK((*backward)["cat"].text == "backward");
    bool kernel = false, range = false;
    for (const Value& e : events) {
      if (!e.has("cat")) continue;
      if (e["cat"].text == "kernel" && e["args"].has("bytes"))
        kernel |= !e["args"]["variant"].text.empty();
      range |= e["cat"].text == "range" && e["name"].text.starts_with("a \"step\"");
    }
    CHECK(kernel);
    CHECK(range);
    CHECK(count(events, "s", "backward") >= 3);  // linear, relu, sum
    CHECK(count(events, "C", "memory of " + to_string(d)) > 0);
    // One arrow ends where the backward of linear begins.
    CHECK(std::any_of(events.begin(), events.end(), [&](const Value& e) {
      return e["ph"].text == "f" && e["ts"].text == (*backward)["ts"].text;
    }));
  }
}

TEST_CASE("trace: ranks, threads and streams have tracks of their own") {
  int stream = 0;
  std::vector<Event> a{
      event(Kind::user, "step", 1, 1000001),
      on_device(event(Kind::kernel, "matmul", 100, 200), nullptr, 900, 2900),
      on_device(event(Kind::kernel, "matmul", 300, 400), nullptr, 2500, 3500),  // 400 ns too early
      on_device(event(Kind::kernel, "copy", 500, 600), &stream, 1000, 1250)};
  a[1].variant = "tiled", a[1].bytes = 4096, a[1].flops = 1e9;
  a.push_back(event(Kind::user, "decode", 0, 900000));
  a.back().thread = 1;
  std::vector<Event> b{event(Kind::user, "step", 5, 10)};
  const std::vector<std::string> threads{"", "loader"};
  const std::vector<Value> events = trace_of(std::vector<TraceSource>{
      {.events = a, .threads = threads}, {.events = b, .rank = 3, .process = "worker"}});
  std::set<std::string> names;
  for (const Value& e : events)
    if (e["ph"].text == "M" && e["args"].has("name")) names.insert(e["args"]["name"].text);
  CHECK(names == std::set<std::string>{"rank 0: warptape", "rank 3: worker", "main thread",
                                       "loader", "cuda:0, default stream", "cuda:0, stream 1"});
  CHECK(count(events, "s", "launch") == 3);
  CHECK(count(events, "X", "matmul") == 2);
  CHECK(count(events, "X", "matmul:tiled") == 2);  // the launch and the kernel
  const Value* kernel = find(events, "X", "matmul:tiled");
  REQUIRE(kernel);
  CHECK((*kernel)["args"]["bytes"].text == "4096");
  CHECK((*kernel)["args"]["flops"].text == "1000000000");
  CHECK((*kernel)["ts"].text == "0.100");
  const Value* step = find(events, "X", "step");
  CHECK((*step)["ts"].text == "0.001");  // microseconds, to the nanosecond
  CHECK((*step)["dur"].text == "1000");
}

TEST_CASE("trace: an arrow to each backward of a node, none without a forward or a backward") {
  std::vector<Event> events{event(Kind::op, "relu", 0, 10), event(Kind::backward, "relu", 20, 30),
                            event(Kind::backward, "relu", 40, 50), event(Kind::op, "exp", 11, 12),
                            event(Kind::backward, "log", 60, 70)};
  events[0].node = events[1].node = events[2].node = 7;
  events[3].node = 8, events[4].node = 9;
  const TraceSource one[] = {{.events = events}};
  const std::vector<Value> trace = trace_of(one);
  CHECK(count(trace, "s", "backward") == 2);
  CHECK(count(trace, "f", "backward") == 2);
}

TEST_CASE("trace: arrows of two threads whose nodes have the same numbers") {
  std::vector<Event> events{event(Kind::op, "relu", 0, 10), event(Kind::op, "relu", 2, 12),
                            event(Kind::backward, "relu", 20, 30),
                            event(Kind::backward, "relu", 21, 31)};
  for (Event& e : events) e.node = 7;
  events[1].thread = events[3].thread = 1;
  const TraceSource one[] = {{.events = events}};
  std::vector<std::string> ends;  // tracks and times
  for (const Value& e : trace_of(one))
    if (e.has("cat") && e["name"].text == "backward")
      ends.push_back(e["ph"].text + e["tid"].text + " " + e["ts"].text);
  std::sort(ends.begin(), ends.end());
  REQUIRE(ends.size() == 4);
  const std::string first = ends[0].substr(1, 1), second = ends[1].substr(1, 1);
  CHECK(first != second);
  CHECK(ends[2].substr(0, 2) == "s" + first);
  CHECK(ends[3].substr(0, 2) == "s" + second);
}

TEST_CASE("trace: work of the device alone is on its stream, with an arrow from what queued it") {
  int stream = 0;
  std::vector<Event> events{event(Kind::kernel, "graph", 100, 200),
                            on_device(event(Kind::kernel, "a", 100, 100), &stream, 150, 300),
                            on_device(event(Kind::kernel, "b", 100, 100), &stream, 300, 400),
                            on_device(event(Kind::kernel, "others", 500, 500), &stream, 500, 600)};
  events[0].device = Device::cuda(0), events[0].stream = &stream;
  for (size_t i = 1; i < 4; ++i) events[i].device_only = true;
  events[1].parent = events[2].parent = events[0].id;
  const TraceSource one[] = {{.events = events}};
  const std::vector<Value> trace = trace_of(one);
  for (const char* name : {"graph", "a", "b", "others"}) CHECK(count(trace, "X", name) == 1);
  CHECK((*find(trace, "X", "graph"))["tid"].text == "0");
  CHECK((*find(trace, "X", "a"))["tid"].text == "1");
  CHECK((*find(trace, "X", "a"))["ts"].text == "0.150");
  CHECK(count(trace, "s", "launch") == 2);  // nobody knows who queued the third
  for (const Value& e : trace)
    if (e["ph"].text == "s") CHECK(e["tid"].text == "0");
}

TEST_CASE("trace: the counter adds up what ranges allocate and release, by device") {
  std::vector<Event> events{event(Kind::op, "a", 0, 10), event(Kind::op, "b", 20, 30),
                            event(Kind::op, "c", 40, 50)};
  events[0].allocated = 100, events[1].allocated = 50, events[1].released = 100;
  events[2].released = 60;  // more than was allocated: from before the profile
  std::swap(events[0], events[2]);
  const TraceSource one[] = {{.events = events}};
  std::vector<std::string> levels;
  for (const Value& e : trace_of(one))
    if (e["ph"].text == "C") levels.push_back(e["args"]["bytes"].text);
  CHECK(levels == std::vector<std::string>{"100", "50", "-10"});
}

TEST_CASE("trace: any name is one string of JSON") {
  const char* const bad = "</script>\"\\\n\x01\xff\xc3\x28 \xf0\x9f\x98\x80";
  const std::vector<Event> events{event(Kind::user, bad, 0, 10)};
  const std::vector<std::string> threads{bad};
  const TraceSource one[] = {{.events = events, .process = bad, .threads = threads}};
  const std::vector<Value> trace = trace_of(one);
  const std::string shown = "</script>\"\\\n\x01\xef\xbf\xbd\xef\xbf\xbd( \xf0\x9f\x98\x80";
  CHECK(find(trace, "X", shown));
  CHECK(trace[0]["args"]["name"].text == shown);
}

TEST_CASE("trace: of nothing, and of a profile that lost ranges") {
  const TraceSource none[] = {{.events = {}, .dropped = 12}};
  CHECK(trace_of(none).size() == 4);  // names and places of the process and its thread
  const TempDir dir;
  profiler::write_trace(dir / "t.json", none);
  CHECK(mentions(slurp(dir / "t.json"), "\"dropped\":12"));
}

TEST_CASE("trace: what cannot be written leaves the old file") {
  const TempDir dir;
  const std::vector<Event> events{event(Kind::user, "x", 0, 10)};
  spit(dir / "t.json", "old");
  const TraceSource twice[] = {{.events = events, .rank = 1}, {.events = events, .rank = 1}};
  CHECK(message_of([&] { profiler::write_trace(dir / "t.json", twice); }) ==
        "UsageError: [profiler] two sources of a trace are of rank 1");
  CHECK(slurp(dir / "t.json") == "old");
  const TraceSource one[] = {{.events = events}};
  CHECK_THROWS_AS(profiler::write_trace(dir / "none/t.json", one), CheckpointError);
  CHECK_THROWS_AS(profiler::write_timeline(dir / "none/t.html", one), CheckpointError);
  CHECK(dir.count() == 1);
}
