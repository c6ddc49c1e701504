#include "warptape/tools/wt/look/step_view.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <sstream>
#include <utility>

#include "warptape/core/str.h"
#include "warptape/tools/wt/grade/element.h"
#include "warptape/tools/wt/look/access_picture.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {
namespace {

constexpr int kStepLines = 3;       // lines of source on either side
constexpr size_t kHistory = 12;     // of a lane
constexpr size_t kLaneTable = 100;  // of the table of lanes, and at most four columns

struct SourcePlace {
  std::string path;
  int line = 0;
};
SourcePlace split_place(const std::string& where) {
  const size_t colon = where.rfind(':');
  SourcePlace p{where.substr(0, colon), 0};
  if (colon != where.npos)
    std::from_chars(where.data() + colon + 1, where.data() + where.size(), p.line);
  return p;
}

std::string verb_of(const SimtStep& s) {
  const char* const memory = s.shared ? "shared" : "device";
  switch (s.kind) {
    case SimtStep::Kind::load:
      return str("load ", s.bytes, " bytes of ", memory, " memory");
    case SimtStep::Kind::store:
      return str("store ", s.bytes, " bytes of ", memory, " memory");
    case SimtStep::Kind::atomic:
      return str("update ", s.bytes, " bytes of ", memory, " memory, atomically");
    case SimtStep::Kind::copy:
      return str("ask for a copy of ", s.bytes, " bytes to ", memory, " memory");
    case SimtStep::Kind::exchange:
      return s.what;
    case SimtStep::Kind::barrier:
      break;
  }
  return str("all warps meet at ", s.what);
}

// As f32 what nobody computes with is a whole number.
std::string f32_text(const u8* from) {
  float f;
  i32 n;
  std::memcpy(&f, from, 4), std::memcpy(&n, from, 4);
  return std::fpclassify(f) == FP_SUBNORMAL ? std::to_string(n) : three_digits(double(f));
}

// As an element of dtype t, or of an integer of as many bytes.
std::string element_text(const u8* from, DType t) {
  if (t == DType::f32) return f32_text(from);
  const double v = grade::load_element(from, t);
  return is_floating(t) ? three_digits(v) : std::to_string(i64(v));
}

// What accesses of so many bytes move, in a launch of dtype t: its elements, one or several; f32
// and whole numbers beside those of 16 bits.
DType element_of(unsigned bytes, DType t) {
  if (bytes == 1) return DType::u8;
  if (bytes == 4 || bytes % unsigned(item_size(t)) != 0)
    return bytes == 8 ? DType::i64 : DType::f32;
  return t;
}

}  // namespace

StepView::StepView(SimtSteps steps, DType dtype, FindSource find)
    : steps_(std::move(steps)), dtype_(dtype), find_(std::move(find)) {}

std::string StepView::head() const {
  const auto sizes = [](const std::array<unsigned, 3>& s) {
    return str(s[0], " x ", s[1], " x ", s[2]);
  };
  return str(steps_.kernel, "\ngrid ", sizes(steps_.grid), ", blocks of ", sizes(steps_.block),
             " threads, block ", steps_.number, ": ", steps_.steps.size(), " steps",
             steps_.cut ? ", and more that were not kept" : "", "\n");
}

std::string StepView::help() {
  return "Enter, n [K]  the next step, or the K-th from here\n"
         "b [K]         back\n"
         "g N           to step N\n"
         "/ LINE        to the next step at this line of the kernel's file\n"
         "w N | w       steps of warp N alone, or of all\n"
         "l N | l       lane N alone and what it has done, or all lanes\n"
         "q             ends\n";
}

bool StepView::shown(const SimtStep& s) const {
  if (s.kind == SimtStep::Kind::barrier) return true;
  if (warp_ >= 0 && int(s.warp) != warp_) return false;
  return lane_ < 0 || (s.lanes >> lane_ & 1) != 0;
}

bool StepView::move(i64 by) {
  const i64 step = by < 0 ? -1 : 1;
  for (i64 left = std::abs(by), i = i64(at_) + step; left > 0; i += step) {
    if (i < 0 || i >= i64(steps_.steps.size())) return false;
    if (!shown(steps_.steps[size_t(i)])) continue;
    at_ = size_t(i);
    --left;
  }
  return true;
}

bool StepView::to_line(int line) {
  for (size_t i = at_ + 1; i < steps_.steps.size(); ++i) {
    const SimtStep& s = steps_.steps[i];
    if (!shown(s)) continue;
    const std::vector<std::string>& where = steps_.places[s.place];
    for (const std::string& w : where)
      if (split_place(w).line == line) {
        at_ = i;
        return true;
      }
  }
  return false;
}

std::string StepView::place_of(const SimtStep& s) const {
  const std::vector<std::string>& where = steps_.places[s.place];
  return where.empty() ? "an unknown line" : base_name(where.back());
}

std::string StepView::value_text(const SimtStep& s, unsigned lane) const {
  if (s.kind == SimtStep::Kind::copy) return "";
  const unsigned bytes = s.bytes ? s.bytes : 4;  // what lanes exchange has none
  if (bytes == 2 && item_size(dtype_) != 2) return std::to_string(s.value[lane][0] & 0xFFFF);
  const DType t = element_of(bytes, dtype_);
  u8 from[sizeof(SimtValue)];
  std::memcpy(from, &s.value[lane], sizeof from);
  std::string text;
  for (unsigned i = 0; i < std::min<unsigned>(bytes, sizeof from); i += unsigned(item_size(t)))
    text += (i ? " " : "") + element_text(from + i, t);
  return text;
}

std::string StepView::source_text() const {
  const std::vector<std::string>& where = steps_.places[now().place];
  if (where.empty()) return "";
  const SourcePlace p = split_place(where.back());
  const std::vector<std::string> lines = find_(p.path);
  std::string text;
  for (int n = std::max(1, p.line - kStepLines);
       n <= std::min(int(lines.size()), p.line + kStepLines); ++n) {
    const std::string number = std::to_string(n);
    text += str(n == p.line ? "  > " : "    ",
                std::string(number.size() < 4 ? 4 - number.size() : 0, ' '), number, "  ",
                lines[size_t(n - 1)], "\n");
  }
  if (where.size() < 2) return text;
  const SourcePlace in = split_place(where.front());
  const std::vector<std::string> inner = find_(in.path);
  text += str("    in ", base_name(where.front()));
  if (in.line >= 1 && in.line <= int(inner.size())) {
    const std::string& line = inner[size_t(in.line - 1)];
    const size_t first = line.find_first_not_of(' ');
    text += str(":  ", first == line.npos ? "" : line.substr(first));
  }
  return text + "\n";
}

std::string StepView::lanes_text(const SimtStep& s) const {
  if (s.kind == SimtStep::Kind::barrier) return "";
  std::vector<std::string> cells;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(s.lanes >> lane & 1) || (lane_ >= 0 && int(lane) != lane_)) continue;
    std::string cell = str(lane < 10 ? " " : "", lane, "  ");
    if (s.kind != SimtStep::Kind::exchange)
      cell += str(s.shared ? str("shared", s.memory[lane] ? std::to_string(s.memory[lane]) : "")
                           : std::string(1, char('A' + s.memory[lane] % 26)),
                  "+", s.offset[lane], "  ");
    cells.push_back(cell + value_text(s, lane));
  }
  size_t width = 0;
  for (const std::string& c : cells) width = std::max(width, c.size());
  const size_t columns = std::clamp<size_t>(kLaneTable / (width + 3), 1, 4);
  const size_t rows = (cells.size() + columns - 1) / columns;
  std::string text;
  for (size_t r = 0; r < rows; ++r) {
    text += "    ";
    for (size_t i = r; i < cells.size(); i += rows)
      text +=
          cells[i] + (i + rows < cells.size() ? std::string(width + 3 - cells[i].size(), ' ') : "");
    text += "\n";
  }
  return text;
}

std::string StepView::cost_text(const SimtStep& s) const {
  if (s.kind == SimtStep::Kind::barrier || s.kind == SimtStep::Kind::exchange) return "";
  SimtRequest r{.lanes = s.lanes, .offset = s.offset};
  if (s.shared) {
    const size_t n = passes_of(r, s.bytes, s.kind == SimtStep::Kind::atomic).size();
    return str("    ", n, n == 1 ? " pass" : " passes", " over the banks\n");
  }
  size_t n = 0, bytes = 0;
  for (u32 piece = 0; piece < steps_.memories; ++piece) {
    r.lanes = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
      if (s.lanes >> lane & 1 && s.memory[lane] == piece) r.lanes |= 1u << lane;
    if (!r.lanes) continue;
    for (const PicturedSector& sector : sectors_of(r, s.bytes))
      ++n, bytes += size_t(std::popcount(sector.bytes));
  }
  return str("    ", n, n == 1 ? " sector" : " sectors", " of 32 bytes, of which ", bytes,
             " are wanted\n");
}

std::string StepView::lane_history() const {
  if (lane_ < 0) return "";
  const unsigned warp = now().warp;
  std::vector<std::string> lines;
  for (size_t i = at_ + 1; i-- > 0 && lines.size() < kHistory;) {
    const SimtStep& s = steps_.steps[i];
    if (s.kind == SimtStep::Kind::barrier || s.warp != warp || !(s.lanes >> lane_ & 1)) continue;
    const std::vector<std::string>& where = steps_.places[s.place];
    std::string source;
    if (!where.empty()) {
      const SourcePlace p = split_place(where.back());
      const std::vector<std::string> all = find_(p.path);
      if (p.line >= 1 && p.line <= int(all.size())) source = all[size_t(p.line - 1)];
      source.erase(0, source.find_first_not_of(' '));
    }
    lines.push_back(str("    ", i + 1, "  ",
                        s.kind == SimtStep::Kind::load       ? "read "
                        : s.kind == SimtStep::Kind::exchange ? "gave "
                                                             : "wrote ",
                        value_text(s, unsigned(lane_)), "  ", place_of(s), "  ", source, "\n"));
  }
  std::string text = str("    lane ", lane_, " of warp ", warp, ", the newest first:\n");
  for (const std::string& l : lines) text += l;
  return text;
}

std::string StepView::text() const {
  if (steps_.steps.empty()) return "nothing was done in this block\n";
  const SimtStep& s = now();
  std::string who = s.kind == SimtStep::Kind::barrier
                        ? std::string()
                        : str(", warp ", s.warp, ", ", std::popcount(s.lanes), " of 32 lanes");
  return str("step ", at_ + 1, " of ", steps_.steps.size(), who, ": ", verb_of(s), "  (",
             place_of(s), ")\n", source_text(), lanes_text(s), cost_text(s), lane_history());
}

std::string StepView::moved(bool well, const char* end) const {
  return (well ? std::string() : std::string(end) + "\n") + text();
}

bool StepView::command(const std::string& line, std::string& answer) {
  std::istringstream words(line);
  std::string name, rest;
  words >> name >> rest;
  if (name.size() > 1 && name[0] == '/') rest = name.substr(1), name = "/";
  int n = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), n);
  const bool number =
      !rest.empty() && error == std::errc() && end == rest.data() + rest.size() && n >= 0;
  const auto wants = [&](const char* what) {
    answer = str(name, " takes ", what, "\n");
    return true;
  };
  if (!rest.empty() && !number) return wants("a whole number");
  const i64 times = rest.empty() ? 1 : n;
  if (name.empty() || name == "n") {
    answer = moved(move(times), "the last step");
  } else if (name == "b") {
    answer = moved(move(-times), "the first step");
  } else if (name == "g") {
    if (!number || n < 1 || n > int(steps_.steps.size()))
      return wants(str("a step, 1 to ", steps_.steps.size()).c_str());
    at_ = size_t(n - 1);
    answer = text();
  } else if (name == "/") {
    if (!number) return wants("a line");
    answer = moved(to_line(n), str("no step at line ", n, " after this one").c_str());
  } else if (name == "w") {
    const int warps = int((steps_.block[0] * steps_.block[1] * steps_.block[2] + 31) / 32);
    if (number && n >= warps) return wants(str("a warp, 0 to ", warps - 1).c_str());
    warp_ = number ? n : -1;
    answer = moved(steps_.steps.empty() || shown(now()) || move(1) || move(-1), "it does nothing");
  } else if (name == "l") {
    if (number && n > 31) return wants("a lane, 0 to 31");
    lane_ = number ? n : -1;
    answer = moved(steps_.steps.empty() || shown(now()) || move(1) || move(-1), "it does nothing");
  } else if (name == "q") {
    return false;
  } else {
    answer = (name == "h" || name == "?" ? "" : str("there is no '", name, "'\n")) + help();
  }
  return true;
}

}  // namespace wt::tools
