#include <algorithm>
#include <cmath>

#include "warptape/core/chart.h"
#include "warptape/core/str.h"
#include "warptape/tools/wt/measure/overlap_timeline.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {
namespace {

using chart::fixed;
using chart::html_escape;

constexpr double kWidth = 1120, kLeft = 150, kRight = 20, kTop = 84, kLane = 24, kChunkLane = 12,
                 kLaneGap = 4, kRankGap = 16, kLetter = 7;
constexpr int kHues = 4;

constexpr char kStyle[] = R"css(
svg{color-scheme:light dark;--page:#fff;--ink:#1c2330;--soft:#5b6675;--grid:#e3e7ec;--on:#fff;
--forward:#1f6feb;--backward:#0e7490;--step:#7c3aed;--wait:#c81e4a;--other:#8a94a3;
--b0:#b45309;--b1:#15803d;--b2:#a21caf;--b3:#4d7c0f}
@media (prefers-color-scheme:dark){svg{--page:#12161c;--ink:#e6eaf0;--soft:#9aa5b4;--grid:#28303b;--on:#10151c;
--forward:#6cb0ff;--backward:#4fd1d9;--step:#b79bff;--wait:#ff7a9a;--other:#6b7686;
--b0:#ffb366;--b1:#5fd38d;--b2:#e58cf0;--b3:#b5d86a}}
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.page{fill:var(--page)}.lane{fill:var(--grid);fill-opacity:.45}.grid{stroke:var(--grid)}
.title{fill:var(--ink);font-size:15px;font-weight:600}
.note{fill:var(--soft);font-size:12.5px}.label{fill:var(--ink);font-size:12.5px}
.tick{fill:var(--soft);font-size:11px;font-variant-numeric:tabular-nums}
.name{fill:var(--on);font-size:11.5px;pointer-events:none}
.forward{fill:var(--forward)}.backward{fill:var(--backward)}.step{fill:var(--step)}
.wait{fill:var(--wait)}.other{fill:var(--other)}
.b0{fill:var(--b0)}.b1{fill:var(--b1)}.b2{fill:var(--b2)}.b3{fill:var(--b3)}
)css";

std::string text(const char* style, double x, double y, const std::string& words,
                 const char* anchor = "start") {
  return str("<text class=\"", style, "\" text-anchor=\"", anchor, "\" x=\"", fixed(x), "\" y=\"",
             fixed(y), "\">", html_escape(words), "</text>\n");
}

std::string rectangle(const std::string& style, double x, double y, double width, double height,
                      const std::string& title = "") {
  return str("<rect class=\"", style, "\" x=\"", fixed(x), "\" y=\"", fixed(y), "\" width=\"",
             fixed(width), "\" height=\"", fixed(height), "\" rx=\"2\">",
             title.empty() ? "" : "<title>" + html_escape(title) + "</title>", "</rect>\n");
}

std::string style_of(const TimelineSpan& s) {
  if (s.kind == SpanKind::bucket || s.kind == SpanKind::chunk)
    return str("b", std::max(s.number, 0) % kHues);
  return to_string(s.kind);
}

class OverlapPicture {
 public:
  explicit OverlapPicture(const OverlapTimeline& t) : t_(t), times_(times_of(t)) {
    for (const TimelineSpan& s : t.spans) {
      begin_ = std::min(begin_, s.from_us);
      chunks_ |= s.kind == SpanKind::chunk;
    }
    scale_ = (kWidth - kLeft - kRight) / std::max(times_.step, 1e-3);
  }

  std::string draw() const {
    const double bottom = top_of(t_.ranks) - kRankGap + 8, height = bottom + 34;
    return str("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", fixed(kWidth), " ",
               fixed(height), "\" role=\"img\" aria-label=\"", html_escape(t_.title),
               "\">\n<style>", kStyle, "</style>\n", rectangle("page", 0, 0, kWidth, height),
               head(), axis(bottom), lanes(), boxes(), "</svg>\n");
  }

 private:
  double top_of(int rank) const {
    const double lanes = 2 * kLane + kLaneGap + (chunks_ ? kChunkLane + kLaneGap : 0);
    return kTop + rank * (lanes + kRankGap);
  }
  double place(double us) const { return kLeft + (us - begin_) * scale_; }

  std::string head() const {
    const auto ms = [](double us) { return fixed_digits(us * 1e-3, 2) + " ms"; };
    return text("title", 14, 24, t_.title) +
           text("note", 14, 44,
                str("step ", ms(times_.step), ": computation ", ms(times_.computation),
                    ", communication ", ms(times_.communication), ", ", ms(times_.exposed),
                    " of waiting; wires' model: ", t_.wires)) +
           legend();
  }

  std::string legend() const {
    std::string out;
    double x = 14;
    const auto key = [&](const std::string& style, const std::string& name) {
      out += rectangle(style, x, 57, 12, 12) + text("note", x + 17, 68, name);
      x += 17 + kLetter * double(name.size()) + 18;
    };
    key("forward", "forward"), key("backward", "backward");
    key("wait", "waits for communication"), key("step", "optimizer's step");
    for (int b = 0; b < std::min(buckets(), kHues); ++b) key(str("b", b), str("bucket ", b));
    if (buckets() > kHues) out += text("note", x, 68, "...");
    if (buckets() > kHues) x += 24;
    key("other", "small collectives");
    return out;
  }

  int buckets() const {
    int n = 0;
    for (const TimelineSpan& s : t_.spans) n = std::max(n, s.number + 1);
    return n;
  }

  std::string axis(double bottom) const {
    const double raw = times_.step / 8;
    const double power = std::pow(10, std::floor(std::log10(std::max(raw, 1e-3))));
    const double every = power * (raw / power > 5 ? 10 : raw / power > 2 ? 5 : 2);
    std::string out;
    for (double us = 0; us <= times_.step * (1 + 1e-9); us += every) {
      const std::string x = fixed(place(begin_ + us));
      out += str("<path class=\"grid\" d=\"M", x, " ", fixed(kTop - 6), "L", x, " ", fixed(bottom),
                 "\"/>\n");
      out += text("tick", place(begin_ + us), bottom + 16, str(us * 1e-3), "middle");
    }
    return out + text("tick", kLeft - 10, bottom + 16, "ms", "end");
  }

  std::string lanes() const {
    std::string out;
    const double width = kWidth - kLeft - kRight;
    for (int r = 0; r < t_.ranks; ++r) {
      const double y = top_of(r), second = y + kLane + kLaneGap, third = second + kLane + kLaneGap;
      out += rectangle("lane", kLeft, y, width, kLane) +
             rectangle("lane", kLeft, second, width, kLane) +
             text("label", kLeft - 10, y + 16, str("rank ", r, " computes"), "end") +
             text("note", kLeft - 10, second + 16, "communicates", "end");
      if (chunks_)
        out += rectangle("lane", kLeft, third, width, kChunkLane) +
               text("note", kLeft - 10, third + 10, "sends chunks", "end");
    }
    return out;
  }

  std::string boxes() const {
    std::string out;
    for (const TimelineSpan& s : t_.spans) out += box(s);
    return out;
  }

  std::string box(const TimelineSpan& s) const {
    const bool chunk = s.kind == SpanKind::chunk;
    const bool second = s.kind == SpanKind::bucket || s.kind == SpanKind::other;
    const double lanes_above = chunk ? 2 : second ? 1 : 0;
    const double y = top_of(s.rank) + lanes_above * (kLane + kLaneGap);
    const double x = place(s.from_us), width = std::max(s.us() * scale_, 0.6);
    const std::string name = s.kind == SpanKind::bucket ? str("bucket ", s.number)
                             : chunk ? str("chunk of bucket ", s.number, " to rank ", s.peer)
                                     : std::string(to_string(s.kind));
    const std::string bytes = s.bytes <= 0     ? std::string()
                              : s.bytes < 1024 ? str(", ", s.bytes, " B")
                                               : ", " + bytes_text(s.bytes);
    std::string out = rectangle(style_of(s), x, y, width, chunk ? kChunkLane : kLane,
                                str(name, bytes, ": ", fixed_digits(s.us() * 1e-3, 3), " ms"));
    const std::string shown = s.kind == SpanKind::bucket ? str(s.number) : name;
    if (!chunk && s.kind != SpanKind::other && width > kLetter * double(shown.size()) + 4)
      out += text("name", x + width / 2, y + 16, shown, "middle");
    return out;
  }

  const OverlapTimeline& t_;
  OverlapTimes times_;
  double begin_ = 0, scale_ = 1;
  bool chunks_ = false;
};

}  // namespace

std::string overlap_svg(const OverlapTimeline& t) { return OverlapPicture(t).draw(); }

}  // namespace wt::tools
