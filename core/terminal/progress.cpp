#include "warptape/core/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "warptape/core/files/hold_write_signals.h"
#include "warptape/core/terminal/progress_head.h"

namespace wt {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kSmoothing = 0.3;
constexpr double kLineSeconds = 10, kLineFraction = 0.05, kLineFloorSeconds = 1;

std::atomic<bool> bar_on_stderr{false};

// The bars that are being drawn on stderr, from above, with what stands there. The cursor rests in
// the last one's line.
struct Shown {
  const void* bar;
  std::string line;
};
constexpr std::string_view kClearRest = "\x1b[K";
std::string lines_up(std::size_t n) { return n ? "\x1b[" + std::to_string(n) + "A" : ""; }
std::string lines_down(std::size_t n) { return n ? "\x1b[" + std::to_string(n) + "B" : ""; }

struct Screen {
  std::mutex mutex;  // bars of several threads share it
  std::vector<std::string> head;
  std::vector<Shown> bars;

  // From the last line to the first one.
  std::string to_top() const { return lines_up(head.size() + bars.size() - 1); }
  // Each in a line of its own, the cursor in the last.
  std::string drawn() const {
    std::string out;
    const auto add = [&](const std::string& line) {
      if (!out.empty()) out += '\n';
      out += "\r" + line;
      out += kClearRest;
    };
    for (const std::string& line : head) add(line);
    for (const Shown& shown : bars) add(shown.line);
    return out;
  }
};
Screen& screen() {
  static Screen* const only = new Screen;  // a bar may be closed by a destructor at the very end
  return *only;
}

double monotonic_seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

void write_stderr(std::string_view text) {
  const detail::HoldWriteSignals hold;  // nor worth dying for, when its reader has gone
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a progress line is not worth failing for
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

bool contains_utf8_name(const char* locale) {
  std::string lower;
  for (const char* p = locale; *p; ++p) lower += static_cast<char>(*p | 0x20);
  return lower.find("utf-8") != lower.npos || lower.find("utf8") != lower.npos;
}

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string cut_to(std::string_view text, std::size_t width) {
  std::size_t i = 0;
  for (; i < text.size(); ++i) {
    if (starts_character(text[i]) && width-- == 0) break;
  }
  return std::string(text.substr(0, i));
}

// Names and messages may come from strangers' files: an escape sequence must not reach the
// terminal.
std::string without_controls(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

template <class... Args>
std::string print(const char* format, Args... args) {
  char text[64];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

std::string clock_text(double seconds) {
  const auto s = static_cast<long long>(std::clamp(seconds, 0.0, 1e12));
  if (s >= 3600) return print("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return print("%02lld:%02lld", s / 60, s % 60);
}

std::string rate_text(double rate, const std::string& unit) {
  if (!(rate > 0)) return "?" + unit + "/s";
  if (rate < 1) return print("%5.2f", 1 / rate) + "s/" + unit;
  return print("%5.2f", rate) + unit + "/s";
}

// Samples come by the hundred: no digits behind the point where there are three before it.
std::string item_rate_text(double rate, const std::string& unit) {
  if (!(rate > 0)) return "?" + unit + "/s";
  return print(rate < 100 ? "%.2f" : "%.0f", rate) + unit + "/s";
}

std::string bar_text(double fraction, std::size_t width, ProgressStyle style) {
  static constexpr const char* kUtf8[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  static constexpr const char* kAscii[] = {" ", "1", "2", "3", "4", "5", "6", "7", "8", "9", "#"};
  const bool ascii = style == ProgressStyle::ascii_bar;
  const char* const* const cells = ascii ? kAscii : kUtf8;
  const std::size_t levels = ascii ? 10 : 8;
  const auto filled = static_cast<std::size_t>(fraction * double(width) * double(levels));
  std::string out;
  for (std::size_t i = 0; i < width; ++i) {
    out += cells[std::min(levels, filled - std::min(filled, i * levels))];
  }
  return out;
}

}  // namespace

bool detail::locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value && *value) return contains_utf8_name(value);
  }
  return false;
}

ProgressStyle detail::style_of_stderr() {
  const char* const term = std::getenv("TERM");
  if (!::isatty(STDERR_FILENO) || (term && std::strcmp(term, "dumb") == 0)) {
    return ProgressStyle::lines;
  }
  return locale_is_utf8() ? ProgressStyle::bar : ProgressStyle::ascii_bar;
}

// Asked at every redraw: a resized window needs no signal handler.
detail::TerminalSize detail::stderr_size() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) size = {};
  const auto given = [](const char* name, int otherwise) {
    const char* const text = std::getenv(name);
    const int value = text ? std::atoi(text) : 0;
    return value > 1 ? value : otherwise;
  };
  return {given("COLUMNS", size.ws_col > 1 ? size.ws_col : 80) - 1,
          given("LINES", size.ws_row > 0 ? size.ws_row : 24)};
}

void detail::set_progress_head(std::vector<std::string> lines) {
  Screen& s = screen();
  const std::lock_guard lock(s.mutex);
  if (s.bars.empty()) return;
  const std::string top = s.to_top();
  s.head = std::move(lines);
  write_stderr(top + s.drawn() + "\x1b[J");  // more lines may have been there
}

std::string detail::format_progress(const ProgressFigures& f) {
  const bool known = f.total >= 0 && f.n <= f.total;
  const std::string prefix = f.desc.empty() ? "" : f.desc + ": ";
  const std::string postfix = f.postfix.empty() ? "" : ", " + f.postfix;
  std::string rate = rate_text(f.rate, f.unit);
  if (!f.items.empty()) rate += ", " + item_rate_text(f.item_rate, f.items);
  const auto columns = static_cast<std::size_t>(std::max(f.columns, 1));
  if (!known) {
    return cut_to(prefix + std::to_string(f.n) + f.unit + " [" + clock_text(f.elapsed) + ", " +
                      rate + postfix + "]",
                  columns);
  }
  const double fraction = f.total > 0 ? double(f.n) / double(f.total) : 1;
  const std::string left = prefix + print("%3.0f%%", 100 * fraction);
  const std::string remaining = f.n == f.total ? "00:00"
                                : f.rate > 0   ? clock_text(double(f.total - f.n) / f.rate)
                                               : "?";
  const std::string right = std::to_string(f.n) + "/" + std::to_string(f.total) + " [" +
                            clock_text(f.elapsed) + "<" + remaining + ", " + rate + postfix + "]";
  if (f.style == ProgressStyle::lines) return left + " " + right;
  const std::size_t used = width_of(left) + 3 + width_of(right);
  const std::size_t bar = columns > used ? columns - used : 0;
  return cut_to(left + "|" + bar_text(fraction, bar, f.style) + "| " + right, columns);
}

std::string detail::epoch_text(i64 epoch, const ProgressOptions& options) {
  return "epoch " + std::to_string(epoch + 1) + "/" + std::to_string(options.epochs) +
         (options.desc.empty() ? "" : " " + options.desc);
}

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  to_stderr_ = !options_.sink;
  options_.desc = without_controls(options_.desc);
  options_.items = without_controls(options_.items);
  if (options_.style == ProgressStyle::automatic) options_.style = detail::style_of_stderr();
  if (!options_.clock) options_.clock = monotonic_seconds;
  start_ = drawn_at_ = options_.clock();
  n_ = drawn_n_ = options_.initial;
  if (options_.disable) return;
  if (to_stderr_) {
    // std::exit runs no destructor of a loop's bar.
    static const bool registered = std::atexit([] { end_progress_line(); }) == 0;
    (void)registered;
  }
  if (options_.style != ProgressStyle::lines) draw_line(start_, false);
}

Progress::~Progress() {
  try {
    close();
  } catch (...) {  // a sink of the caller's; nothing is lost but a line
  }
}

void Progress::put(std::string_view text) { to_stderr_ ? write_stderr(text) : options_.sink(text); }

int Progress::columns() const {
  return options_.columns > 0 ? options_.columns : detail::stderr_size().columns;
}

double Progress::elapsed() const { return options_.clock() - start_; }

double Progress::average_rate() const {
  const double seconds = elapsed();
  return seconds > 0 ? double(n_ - options_.initial) / seconds : 0;
}

std::string Progress::text(double now, double rate, double item_rate) const {
  return detail::format_progress({options_.desc, options_.unit, postfix_, n_, options_.total,
                                  now - start_, rate, columns(), options_.style, options_.items,
                                  item_rate});
}

void Progress::update(i64 n) {
  n_ += n;
  if (options_.disable || closed_) return;
  const double now = options_.clock();
  const double since = now - drawn_at_;
  if (options_.style == ProgressStyle::lines) {
    const bool far =
        options_.total > 0 && double(n_ - drawn_n_) >= kLineFraction * double(options_.total);
    if (since < kLineSeconds && !(far && since >= kLineFloorSeconds)) return;
  } else if (since < kRedrawSeconds) {
    return;
  }
  draw(now);
}

// Steps and seconds are averaged apart, as tqdm does: their quotient is the rate.
void Progress::draw(double now) {
  const double steps = double(n_ - drawn_n_), seconds = now - drawn_at_;
  if (steps > 0 && seconds > 0) {
    ema_steps_ = kSmoothing * steps + (1 - kSmoothing) * ema_steps_;
    ema_seconds_ = kSmoothing * seconds + (1 - kSmoothing) * ema_seconds_;
    ema_items_ = kSmoothing * double(items_ - drawn_items_) + (1 - kSmoothing) * ema_items_;
  }
  drawn_n_ = n_;
  drawn_items_ = items_;
  drawn_at_ = now;
  draw_line(now, false);
}

void Progress::draw_line(double now, bool final) {
  const bool average = final || !(ema_seconds_ > 0);
  const double seconds = now - start_;
  const auto rate = [&](double smoothed, i64 all) {
    return !average ? smoothed / ema_seconds_ : seconds > 0 ? double(all) / seconds : 0;
  };
  std::string line = text(now, rate(ema_steps_, n_ - options_.initial), rate(ema_items_, items_));
  if (options_.style == ProgressStyle::lines) {
    put(line + "\n");
    return;
  }
  if (to_stderr_) {
    Screen& s = screen();
    const std::lock_guard lock(s.mutex);
    auto own = std::find_if(s.bars.begin(), s.bars.end(),
                            [&](const Shown& shown) { return shown.bar == this; });
    if (own == s.bars.end()) {
      if (!s.bars.empty()) write_stderr("\n");
      own = s.bars.insert(s.bars.end(), {this, {}});
    }
    const std::size_t below = std::size_t(s.bars.end() - own) - 1;
    const bool alone = s.bars.size() == 1 && s.head.empty();
    const std::string top = s.to_top();
    own->line = line;
    if (final) s.bars.erase(own);
    bar_on_stderr.store(!s.bars.empty());
    if (!alone) {
      drawn_width_ = final ? 0 : width_of(line);
      line += kClearRest;
      if (!final)
        write_stderr(lines_up(below) + "\r" + line + lines_down(below));
      else if (s.bars.empty())
        write_stderr(options_.leave ? "\r" + line + "\n" : "\r" + std::string(kClearRest));
      else if (options_.leave)  // above those that go on
        write_stderr(top + "\r" + line + "\n" + s.drawn());
      else
        write_stderr(top + s.drawn() + "\n\r" + std::string(kClearRest) + lines_up(1));
      if (s.bars.empty()) s.head.clear();
      return;
    }
  }
  if (final && !options_.leave) {
    put("\r" + std::string(drawn_width_, ' ') + "\r");
    return;
  }
  const std::size_t width = width_of(line);
  line.append(drawn_width_ - std::min(drawn_width_, width), ' ');
  drawn_width_ = final ? 0 : width;
  put("\r" + line + (final ? "\n" : ""));
}

void Progress::set_postfix(std::string text) { postfix_ = without_controls(std::move(text)); }

void Progress::write(std::string_view line) {
  if (options_.disable) return;
  if (to_stderr_) {
    Screen& s = screen();
    const std::lock_guard lock(s.mutex);
    const bool alone = s.head.empty() && s.bars.size() == 1 && s.bars[0].bar == this;
    if (!s.bars.empty() && !alone) {
      std::string above = "\r";
      for (const char c : line)
        above += c == '\n' ? std::string(kClearRest) + '\n' : std::string(1, c);
      write_stderr(s.to_top() + above + std::string(kClearRest) + "\n" + s.drawn());
      return;
    }
  }
  if (options_.style == ProgressStyle::lines || closed_) {
    put(std::string(line) + "\n");
    return;
  }
  put("\r" + std::string(drawn_width_, ' ') + "\r" + std::string(line) + "\n");
  drawn_width_ = 0;
  draw(options_.clock());
}

void Progress::close() {
  if (std::exchange(closed_, true) || options_.disable) return;
  draw_line(options_.clock(), true);
}

void end_progress_line() noexcept {
  if (bar_on_stderr.exchange(false)) (void)!::write(STDERR_FILENO, "\n", 1);
}

}  // namespace wt
