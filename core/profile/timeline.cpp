// The timeline page: what timeline_page.h draws, as compact JSON.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include "warptape/core/build_info.h"
#include "warptape/core/chart.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/html_page.h"
#include "warptape/core/files/json.h"
#include "warptape/core/profile/timeline_page.h"
#include "warptape/core/profile/trace_parts.h"
#include "warptape/core/str.h"

namespace wt::profiler {
namespace {

constexpr std::size_t kLevels = 4000;  // points of a curve of memory

// Numbers of things that are written once.
template <class Key>
class Numbers {
 public:
  u32 of(const Key& key) {
    const auto [at, added] = numbers_.try_emplace(key, u32(numbers_.size()));
    if (added) order_.push_back(&at->first);
    return at->second;
  }
  const std::vector<const Key*>& order() const { return order_; }

 private:
  std::map<Key, u32> numbers_;
  std::vector<const Key*> order_;
};

// What many slices have in common: kind, texts by their numbers, whether it is on a device.
struct Detail {
  int kind;
  u32 title, module, line, variant;
  double bytes, flops;
  int on_device;
  u32 shapes;
  i64 allocated, released;
  auto operator<=>(const Detail&) const = default;
};

// Joins numbers by commas.
class List {
 public:
  template <class... Values>
  void add(const Values&... values) {
    ((text_ += text_.empty() ? "" : ",", text_ += str(values)), ...);
  }
  std::string text() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
};

// What a page keeps of more ranges than it has room for.
struct Longest {
  i64 least = 0;                                  // nanoseconds that a range must have taken
  i64 as_long = std::numeric_limits<i64>::max();  // how many that took just these are kept
  i64 all = 0;                                    // ranges there are
  bool whole = true;
};

Longest longest(std::span<const TraceSource> ranks, i64 most) {
  Longest kept;
  for (const TraceSource& s : ranks)
    for (const Event& e : s.events) kept.all += !e.device_only + is_on_device(e);
  if (kept.all <= most) return kept;
  std::vector<i64> times;
  times.reserve(std::size_t(kept.all));
  for (const TraceSource& s : ranks)
    for (const Event& e : s.events) {
      if (!e.device_only) times.push_back(e.host_ns());
      if (is_on_device(e)) times.push_back(e.device_ns());
    }
  const auto at = times.begin() + std::ptrdiff_t(most - 1);
  std::nth_element(times.begin(), at, times.end(), std::greater<>());
  kept.least = *at;
  kept.as_long = most - std::count_if(times.begin(), times.end(), [&](i64 t) { return t > *at; });
  kept.whole = false;
  return kept;
}

class PageData {
 public:
  explicit PageData(const Longest& kept) : kept_(kept) { strings_.of(""); }

  void add(const TraceSource& source, bool alone) {
    const TraceParts parts(source);
    TraceTexts texts(source);
    std::vector<std::vector<Slice>> tracks(parts.tracks().size());
    for (u32 i = 0; i < source.events.size(); ++i)
      if (!parts.event(i).device_only) put(tracks, parts.on_thread(i));
    parts.for_each_on_device([&](const Slice& s) { put(tracks, s); });
    std::unordered_map<u32, u32> on_thread, on_device;  // the pages' numbers of events
    List list;
    for (u32 t = 0; t < tracks.size(); ++t) {
      const bool device = parts.tracks()[t].device;
      if (tracks[t].empty()) continue;
      list.add(track(source, parts, t, tracks[t], texts, device ? on_device : on_thread));
    }
    parts.for_each_arrow([&](const ArrowEnds& a) {
      const auto from = on_thread.find(a.from);
      const auto& ends = a.kind == Arrow::launch ? on_device : on_thread;
      const auto to = ends.find(a.to);
      if (from != on_thread.end() && to != ends.end())
        arrows_.add(from->second, to->second, int(a.kind));
    });
    processes_.add(str("{\"name\":", json_quote(process_name(source, alone)),
                       ",\"tracks\":", list.text(), ",\"memory\":", memory(parts), "}"));
  }

  std::string json() const {
    List details, strings;
    for (const Detail* d : details_.order()) {
      List one;
      one.add(d->kind, d->title, d->module, d->line, d->variant, json_number(d->bytes),
              json_number(d->flops), d->on_device, d->shapes, d->allocated, d->released);
      details.add(one.text());
    }
    for (const std::string* s : strings_.order()) strings.add(json_quote(*s));
    return str("{\"processes\":", processes_.text(), ",\"arrows\":", arrows_.text(),
               ",\"details\":", details.text(), ",\"strings\":", strings.text(), "}");
  }

 private:
  Longest kept_;
  u32 slices_ = 0;
  Numbers<std::string> strings_;
  Numbers<Detail> details_;
  List processes_, arrows_;

  void put(std::vector<std::vector<Slice>>& tracks, const Slice& s) {
    const i64 took = s.end - s.begin;
    if (took < kept_.least || (took == kept_.least && kept_.as_long-- <= 0)) return;
    tracks[s.track].push_back(s);
  }

  std::string track(const TraceSource& source, const TraceParts& parts, u32 t,
                    std::vector<Slice>& slices, TraceTexts& texts,
                    std::unordered_map<u32, u32>& numbers) {
    // What is inside of another comes behind it.
    std::sort(slices.begin(), slices.end(), [&](const Slice& a, const Slice& b) {
      return std::tuple(a.begin, -a.end, parts.event(a.event).id) <
             std::tuple(b.begin, -b.end, parts.event(b.event).id);
    });
    List list;
    i64 before = 0;
    for (const Slice& s : slices) {
      numbers.emplace(s.event, slices_++);
      list.add(s.begin - before, s.end - s.begin,
               details_.of(detail(source, parts.event(s.event), parts.tracks()[t].device, texts)));
      before = s.begin;
    }
    return str("{\"name\":", json_quote(parts.tracks()[t].name),
               ",\"flat\":", int(parts.tracks()[t].device), ",\"s\":", list.text(), "}");
  }

  Detail detail(const TraceSource& source, const Event& e, bool device, TraceTexts& texts) {
    Detail d{};
    d.kind = int(e.kind);
    d.title = strings_.of(texts.title(e));
    d.module = strings_.of(module_path_of(e.mode_id));
    d.line = strings_.of(e.frame ? describe_frame(e.frame) : "");
    d.variant = strings_.of(e.variant ? e.variant : "");
    d.bytes = e.bytes > 0 ? e.bytes : 0, d.flops = e.flops > 0 ? e.flops : 0;
    d.on_device = device;
    d.shapes = strings_.of(shapes_of(source, e));
    d.allocated = device ? 0 : e.allocated, d.released = device ? 0 : e.released;
    return d;
  }

  // The highest level of each stretch, and the last one.
  std::string memory(const TraceParts& parts) const {
    std::map<std::string, std::vector<std::pair<i64, i64>>> curves;
    parts.for_each_level(
        [&](const Device& d, i64 at, i64 bytes) { curves[to_string(d)].emplace_back(at, bytes); });
    List all;
    for (const auto& [device, points] : curves) {
      List list;
      const std::size_t stretch = (points.size() + kLevels - 1) / kLevels;
      i64 before = 0;
      for (std::size_t i = 0; i < points.size(); i += stretch) {
        const auto end = points.begin() + std::ptrdiff_t(std::min(i + stretch, points.size()));
        const auto top = std::max_element(points.begin() + std::ptrdiff_t(i), end,
                                          [](auto& a, auto& b) { return a.second < b.second; });
        list.add(top->first - before, top->second);
        before = top->first;
        if (end == points.end() && top + 1 != end)
          list.add(points.back().first - before, points.back().second);
      }
      all.add(str("{\"name\":", json_quote(device), ",\"p\":", list.text(), "}"));
    }
    return all.text();
  }
};

std::string note(const Longest& kept, i64 most, i64 dropped) {
  std::string text;
  if (!kept.whole)
    text = str("Of ", kept.all, " ranges the ", most, " longest are here: those of ",
               double(kept.least) / 1000, " microseconds and more. ");
  if (dropped) text += str("The profile has lost ", dropped, " older ranges.");
  return text.empty() ? "" : "<p class=\"note\">" + text + "</p>\n";
}

}  // namespace

void write_timeline(const std::string& path, std::span<const TraceSource> ranks,
                    const TimelineOptions& options) {
  check_sources(ranks);
  const i64 most = std::max<i64>(options.most, 1);
  const Longest kept = longest(ranks, most);
  PageData data(kept);
  i64 dropped = 0;
  for (const TraceSource& s : ranks) {
    data.add(s, ranks.size() == 1);
    dropped += s.dropped;
  }
  AtomicFile out(path);
  out.write(str(page_begin({.title = options.title, .style = kTimelineStyle, .script = true}),
                "<header><h1>", chart::html_escape(options.title), "</h1>\n<span class=\"sub\">",
                chart::html_escape(options.subtitle), options.subtitle.empty() ? "" : ", ",
                "warptape ", chart::html_escape(build_info().version), "</span>", kTimelineBody,
                note(kept, most, dropped),
                "<div id=\"frame\"><canvas id=\"c\" role=\"img\" aria-label=\"Timeline\"></canvas>"
                "<div id=\"tip\" class=\"tip\" hidden></div></div>\n"
                "<aside id=\"details\" aria-live=\"polite\"></aside>\n"));
  out.write(page_data(data.json()));
  out.write(page_end(kTimelineScript));
  out.commit();
}

}  // namespace wt::profiler
