// Plots as pixels, in characters and in the terminal.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>

#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/hold_write_signals.h"
#include "warptape/core/input_file.h"
#include "warptape/core/plot.h"
#include "warptape/core/terminal/ask_terminal.h"
#include "warptape/core/terminal/progress_head.h"
#include "warptape/core/terminal/raster.h"
#include "warptape/core/terminal/text_chart.h"

namespace wt {
namespace {

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value;
}
bool is_dumb() {
  const char* const term = std::getenv("TERM");
  return !term || !*term || std::string_view(term) == "dumb";
}

std::optional<PlotForm> form_of_environment() {
  if (!is_set("WT_PLOT")) return {};
  const std::string value = std::getenv("WT_PLOT");
  for (const auto& [name, form] : {std::pair{"sixel", PlotForm::sixel},
                                   {"blocks", PlotForm::blocks},
                                   {"ascii", PlotForm::ascii},
                                   {"off", PlotForm::off},
                                   {"auto", PlotForm::automatic}})
    if (value == name) return form;
  throw UsageError(
      str("[plot] WT_PLOT is \"", printable(value), "\"\n  Try sixel, blocks, ascii, off or auto"));
}

// Asked once for each terminal: one that does not answer costs the whole time. One that was not
// asked, as somebody typed ahead or this process was in the background, is asked the next time.
detail::TerminalAnswer answer_of(int fd, double seconds) {
  static std::mutex mutex;
  static std::map<std::string, detail::TerminalAnswer> known;
  char name[256];
  if (::ttyname_r(fd, name, sizeof name) != 0) return {};
  const std::lock_guard lock(mutex);
  if (const auto at = known.find(name); at != known.end()) return at->second;
  const detail::TerminalAnswer answer = detail::ask_terminal(fd, seconds);
  if (answer.asked) known.emplace(name, answer);
  return answer;
}

// Characters, and pixels where the terminal says them, else 0.
struct Window {
  int columns = 80, rows = 24, width = 0, height = 0;
};
Window window_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, size.ws_row, size.ws_xpixel, size.ws_ypixel};
}

void write_all(int fd, std::string_view text) {
  const detail::HoldWriteSignals hold;
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a picture is not worth failing for
    text.remove_prefix(std::size_t(n));
  }
}

void check_picture(const PictureOptions& o, const PlotOptions& size) {
  if (!(o.scale >= 0.25 && o.scale <= 8))
    throw UsageError(str("[plot] a scale from 0.25 to 8, got ", o.scale));
  if (size.width * o.scale > 16'384 || size.height * o.scale > 16'384)
    throw UsageError(str("[plot] pixels of ", size.width, " x ", size.height, " at scale ", o.scale,
                         ", at most 16384 a side\n  Try svg()"));
}
// A stranger's name must not move the cursor.
std::string one_line(const std::string& text) {
  std::string shown = printable_lines(text);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return shown;
}
// Text that ends in "..." where it is cut.
std::string shortened(const std::string& text, std::size_t width) {
  std::size_t at = 0, kept = 0;
  for (std::size_t n = 0; at < text.size(); ++n) {
    if (n + 3 == width) kept = at;
    if (n == width) return text.substr(0, kept) + "...";
    for (++at; at < text.size() && (text[at] & 0xC0) == 0x80;) ++at;
  }
  return text;
}
std::size_t columns_of(const std::string& text) {
  return std::size_t(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string Plot::text(const PlotTextOptions& o) const {
  const auto columns = std::size_t(std::max(o.columns, 20));
  chart::TextStyle style{.columns = int(columns), .utf8 = o.utf8, .color = o.color};
  const auto plain = [&](const std::string& text) { return shortened(one_line(text), columns); };
  std::vector<std::string> lines;
  chart::Chart c{.title = {},
                 .series = {},
                 .from_zero = options_.from_zero,
                 .x = plain(options_.x),
                 .log_x = options_.log_x};
  for (const PlotSeries& s : series_) c.series.push_back({s.label, "", s.points});
  std::string head = options_.title;
  if (!options_.y.empty()) head += head.empty() ? options_.y : " (" + options_.y + ")";
  if (!head.empty()) lines.push_back(plain(head));
  std::size_t used = columns;
  for (std::size_t i = 0;
       i < series_.size() && (i > 0 || series_.size() > 1 || !series_[0].label.empty()); ++i) {
    const std::string name = shortened(one_line(series_[i].label), columns - 6);
    const std::size_t width = columns_of(name) + 5;  // with its key and a gap
    if (used + width > columns) lines.emplace_back(), used = 0;
    lines.back() += chart::text_key(i, series_.size(), style) + " " + name + "  ";
    used += width;
  }
  style.rows = std::max(o.rows - int(lines.size()) - 1, 2);
  std::vector<std::string> drawn = chart::text_chart(c, style);
  if (drawn.empty()) drawn = {"no finite value"};
  lines.insert(lines.end(), drawn.begin(), drawn.end());
  std::string out;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string Plot::encode_png(const PictureOptions& o) const {
  check_picture(o, options_);
  chart::RasterCanvas canvas(options_.width, options_.height, o.scale, o.dark);
  paint(canvas, canvas);
  return chart::png_file(canvas.pixels());
}

std::string Plot::sixel(const PictureOptions& o) const {
  check_picture(o, options_);
  chart::RasterCanvas canvas(options_.width, options_.height, o.scale, o.dark);
  paint(canvas, canvas);
  return chart::sixels(canvas.pixels());
}

void Plot::png(const std::string& path, const PictureOptions& o) const {
  write_file_atomically(path, encode_png(o));
}

PlotForm Plot::show(const ShowOptions& o) const {
  if (!::isatty(o.fd)) return PlotForm::off;
  PlotForm form = o.form;
  if (form == PlotForm::automatic) form = form_of_environment().value_or(form);
  detail::TerminalAnswer terminal;
  if (form == PlotForm::sixel || (form == PlotForm::automatic && !is_dumb()))
    terminal = answer_of(o.fd, o.answer_seconds);
  if (form == PlotForm::automatic)
    form = is_dumb() ? PlotForm::ascii : terminal.sixel ? PlotForm::sixel : PlotForm::blocks;
  if (form == PlotForm::off) return form;
  const Window window = window_of(o.fd);
  if (form == PlotForm::sixel) {
    Plot fits = *this;
    if (window.width > 0)
      fits.options_.width = std::clamp(options_.width, 200, std::max(200, window.width));
    if (window.height > 0)  // two lines less: the prompt follows
      fits.options_.height =
          std::clamp(options_.height, 150,
                     std::max(150, window.height - 2 * window.height / std::max(window.rows, 1)));
    write_all(o.fd, fits.sixel({.dark = terminal.dark}) + "\n");
    return form;
  }
  const bool blocks = form == PlotForm::blocks;
  write_all(o.fd, text({.columns = window.columns - 1,
                        .rows = std::clamp(window.rows - 2, 6, 20),
                        .utf8 = blocks && detail::locale_is_utf8(),
                        .color = blocks && !is_set("NO_COLOR")}));
  return form;
}

}  // namespace wt
