// Chrome's trace events, written as they are made.
#include <algorithm>

#include "warptape/core/build_info.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/json.h"
#include "warptape/core/profile/trace_parts.h"
#include "warptape/core/str.h"

namespace wt::profiler {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

class TraceWriter {
 public:
  TraceWriter(const std::string& path, i64 dropped) : file_(path) {
    text_ = str("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":\"warptape ",
                build_info().version, "\",\"dropped\":", dropped, "},\"traceEvents\":[");
  }

  void write(const TraceSource& source, bool alone) {
    const TraceParts parts(source);
    TraceTexts texts(source);
    rank_ = source.rank;
    metadata("process_name", 0, "name", json_quote(process_name(source, alone)));
    metadata("process_sort_index", 0, "sort_index", std::to_string(source.rank));
    for (u32 t = 0; t < parts.tracks().size(); ++t) {
      metadata("thread_name", t, "name", json_quote(parts.tracks()[t].name));
      metadata("thread_sort_index", t, "sort_index", std::to_string(t));
    }
    for (u32 i = 0; i < source.events.size(); ++i)
      if (!parts.event(i).device_only) complete(parts.on_thread(i), parts.event(i), texts);
    parts.for_each_on_device([&](const Slice& s) {
      complete(s, parts.event(s.event), texts);
      const u32 from = parts.launch_of(s.event);
      if (from != TraceParts::kNobody && parts.event(from).begin_ns <= s.begin)
        flow(Arrow::launch, parts.on_thread(from), s);
    });
    parts.for_each_arrow([&](const ArrowEnds& a) {
      if (a.kind == Arrow::tape) flow(a.kind, parts.on_thread(a.from), parts.on_thread(a.to));
    });
    parts.for_each_level([&](const Device& d, i64 at, i64 bytes) {
      begin("C", 0, at);
      text_ += ",\"name\":\"memory of " + to_string(d) + "\",\"args\":{\"bytes\":";
      text_ += std::to_string(bytes) + "}}";
    });
  }

  void finish() {
    text_ += "\n]}\n";
    file_.write(text_);
    file_.commit();
  }

 private:
  AtomicFile file_;
  std::string text_;
  int rank_ = 0;
  u64 flows_ = 0;
  bool first_ = true;

  // Microseconds with the nanoseconds behind the point: no digit of a long run is lost, as of a
  // double's it would be.
  void number_us(i64 ns) {
    const u64 n = ns < 0 ? u64(0) - u64(ns) : u64(ns);
    if (ns < 0) text_ += '-';
    text_ += std::to_string(n / 1000);
    if (const u64 rest = n % 1000) {
      const char digits[] = {'.', char('0' + rest / 100), char('0' + rest / 10 % 10),
                             char('0' + rest % 10)};
      text_.append(digits, sizeof digits);
    }
  }

  void next() {
    if (text_.size() >= kBuffer) {
      file_.write(text_);
      text_.clear();
    }
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
  }

  void begin(const char* phase, u32 track, i64 at) {
    next();
    text_ += str("{\"ph\":\"", phase, "\",\"pid\":", rank_, ",\"tid\":", track, ",\"ts\":");
    number_us(at);
  }

  void metadata(const char* name, u32 track, const char* key, const std::string& value) {
    next();
    text_ += str("{\"ph\":\"M\",\"pid\":", rank_, ",\"tid\":", track, ",\"name\":\"", name,
                 "\",\"args\":{\"", key, "\":", value, "}}");
  }

  void complete(const Slice& s, const Event& e, TraceTexts& texts) {
    begin("X", s.track, s.begin);
    text_ += ",\"dur\":";
    number_us(s.end - s.begin);
    text_ += str(",\"cat\":\"", kind_name(e.kind), "\",\"name\":", texts.quoted(e),
                 ",\"args\":{\"step\":", e.step, texts.place(e));
    if (e.variant) text_ += ",\"variant\":" + json_quote(e.variant);
    if (e.bytes > 0) text_ += ",\"bytes\":" + json_number(e.bytes);
    if (e.flops > 0) text_ += ",\"flops\":" + json_number(e.flops);
    if (const std::string& shapes = texts.shapes(e); !shapes.empty())
      text_ += ",\"shapes\":" + shapes;
    if (e.node) text_ += str(",\"node\":", e.node);
    if (e.allocated) text_ += str(",\"allocated\":", e.allocated);
    if (e.released) text_ += str(",\"released\":", e.released);
    if (e.left_open) text_ += ",\"left_open\":true";
    text_ += "}}";
  }

  // Both ends bind to the innermost range that is open at their times.
  void flow(Arrow kind, const Slice& from, const Slice& to) {
    const char* const name = kind == Arrow::tape ? "backward" : "launch";
    ++flows_;
    for (const bool end : {false, true}) {
      begin(end ? "f" : "s", end ? to.track : from.track, end ? to.begin : from.begin);
      text_ += str(",\"id\":", flows_, ",\"cat\":\"flow\",\"name\":\"", name, "\"",
                   end ? ",\"bp\":\"e\"}" : "}");
    }
  }
};

}  // namespace

void write_trace(const std::string& path, std::span<const TraceSource> ranks) {
  check_sources(ranks);
  i64 dropped = 0;
  for (const TraceSource& s : ranks) dropped += s.dropped;
  TraceWriter out(path, dropped);
  for (const TraceSource& s : ranks) out.write(s, ranks.size() == 1);
  out.finish();
}

}  // namespace wt::profiler
