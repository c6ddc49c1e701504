// Plots as pixels, in characters and in a terminal.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "warptape/config.h"
#include "warptape/core/error.h"
#include "warptape/core/philox.h"
#include "warptape/core/plot.h"
#include "warptape/core/terminal/ask_terminal.h"
#include "warptape/core/terminal/raster.h"
#include "warptape/data/image.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using chart::Pixels;
using wt_test::Environment;

namespace {

Tensor decoded(const std::string& file) {
  return data::decode_image({reinterpret_cast<const u8*>(file.data()), file.size()}, "plot.png");
}

// Noise of `colors` colours, in runs of up to `run` pixels.
Pixels noise(int width, int height, u64 colors, u64 run) {
  Pixels p{width, height, {}};
  for (u64 i = 0; p.rgb.size() < size_t(3 * width * height); ++i) {
    const u64 color = mix64(mix64(i) % colors);
    for (u64 k = 0; k <= mix64(~i) % run && p.rgb.size() < size_t(3 * width * height); ++k)
      for (int c = 0; c < 3; ++c) p.rgb.push_back(u8(color >> (8 * c)));
  }
  return p;
}

// What a terminal draws of sixels; every pixel must be drawn once.
Pixels drawn(const std::string& text) {
  Pixels p;
  std::map<int, std::array<u8, 3>> colors;
  size_t at = 0;
  const auto number = [&] {
    int n = 0;
    while (at < text.size() && std::isdigit(text[at])) n = 10 * n + text[at++] - '0';
    return n;
  };
  REQUIRE(text.starts_with("\x1bP0;1q\"1;1;"));
  at = std::strlen("\x1bP0;1q\"1;1;");
  p.width = number(), ++at, p.height = number();
  std::vector<int> times(size_t(p.width * p.height));
  p.rgb.resize(3 * times.size());
  int x = 0, top = 0, color = 0;
  const auto put = [&](char sixel, int n) {
    for (; n > 0; --n, ++x)
      for (int k = 0; k < 6; ++k) {
        if (!((sixel - '?') >> k & 1)) continue;
        if (x >= p.width || top + k >= p.height) FAIL("outside at " << x << ", " << top + k);
        const size_t pixel = size_t((top + k) * p.width + x);
        ++times[pixel];
        for (size_t c = 0; c < 3; ++c) p.rgb[3 * pixel + c] = colors.at(color)[c];
      }
  };
  while (text[at] != '\x1b') {
    const char c = text[at++];
    if (c == '#') {
      color = number();
      if (text[at] != ';') continue;
      at += 3;  // ";2;"
      for (u8& channel : colors[color]) {
        channel = u8(std::lround(number() * 2.55));
        if (text[at] == ';') ++at;
      }
    } else if (c == '!') {
      const int n = number();
      put(text[at++], n);
    } else if (c == '$' || c == '-') {
      x = 0;
      if (c == '-') top += 6;
    } else {
      put(c, 1);
    }
  }
  CHECK(text.substr(at) == "\x1b\\");
  CHECK(colors.size() <= 256);
  CHECK(std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }));
  return p;
}

double greatest_difference(const Pixels& a, const Pixels& b) {
  REQUIRE(a.rgb.size() == b.rgb.size());
  int most = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) most = std::max(most, std::abs(a.rgb[i] - b.rgb[i]));
  return most;
}

std::set<u32> colors_of(const Tensor& image) {
  const auto v = image.to_vector<u8>();
  std::set<u32> all;
  for (size_t i = 0; i < v.size(); i += 3)
    all.insert(u32(v[i]) << 16 | u32(v[i + 1]) << 8 | v[i + 2]);
  return all;
}

const Plot& two_curves() {
  static const Plot p = plot(
      {{"Adam", std::vector<double>{4, 2, 1, 0.5}}, {"SGD", std::vector<double>{4, 3, 2.5, 2}}},
      {.title = "Loss", .y = "nats"});
  return p;
}

}  // namespace

TEST_CASE("plot: a PNG file holds the pixels that were drawn, whatever they are") {
  if (!WARPTAPE_HAS_SPNG) SKIP_TEST("this build has no libspng to read it with");
  for (const auto& [w, h] : {std::pair{1, 1}, {3, 2}, {300, 5}, {17, 40}})
    for (const u64 run : {1, 4, 2000}) {
      const Pixels p = noise(w, h, 1 << 20, run);
      const Tensor back = decoded(chart::png_file(p));
      CHECK(back.shape() == Shape{h, w, 3});
      CHECK(back.to_vector<u8>() == p.rgb);
    }
  CHECK(chart::png_file(noise(760, 420, 1, 1)).size() < 10'000);  // one colour
}

TEST_CASE("plot: the picture's page, letters and curves, light and dark, at any scale") {
  if (!WARPTAPE_HAS_SPNG) SKIP_TEST("this build has no libspng to read it with");
  const TempDir dir;
  two_curves().png(dir / "a.png");
  const Tensor light = data::read_image(dir / "a.png");
  CHECK(light.shape() == Shape{420, 760, 3});
  const Tensor dark = decoded(two_curves().encode_png({.dark = true, .scale = 1.5}));
  CHECK(dark.shape() == Shape{630, 1140, 3});
  for (const u32 color : {0xffffff, 0x1f6feb, 0xc2410c}) CHECK(colors_of(light).contains(color));
  for (const u32 color : {0x12161c, 0x6cb0ff, 0xff9d5c}) CHECK(colors_of(dark).contains(color));
  CHECK(!colors_of(light).contains(0x15803d));  // a third series' colour
  // A level line from edge to edge of the chart, at the height that the SVG has.
  const Plot level = plot({{"", std::vector<double>{1, 1}}}, {.from_zero = true});
  const std::string svg = level.svg();
  const size_t path = svg.rfind(" d=\"M60.0 ") + 10;
  const i64 row = i64(std::stod(svg.substr(path)));
  const auto pixels = decoded(level.encode_png()).to_vector<u8>();
  for (const i64 x : {i64{61}, i64{400}, i64{742}}) {
    const size_t at = size_t(3 * (row * 760 + x));
    CHECK(pixels[at] < 0x90);  // blue: little red
    CHECK(pixels[at + 2] > 0xe0);
    CHECK(pixels[at - 3 * 760 * 4 + 1] == 0xff);  // and the page above it
  }
  // Names of strangers, letters that are not there, and nothing to draw.
  CHECK(decoded(plot({{"\xff\x1b[2J é", std::vector<double>{std::nan("")}}}, {.title = "\x01"})
                    .encode_png())
            .numel() > 0);
  CHECK_THROWS_AS(two_curves().encode_png({.scale = 0.1}), UsageError);
  CHECK_THROWS_AS(two_curves().encode_png({.scale = std::nan("")}), UsageError);
  CHECK_THROWS_AS(plot({{"", std::vector<double>{1}}}, {.width = 20'000}).encode_png(), UsageError);
}

TEST_CASE("plot: numbers that are no places draw something or nothing, in pixels and characters") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const std::vector<double>& y : {std::vector<double>{1e18, 1e18 + 512},
                                       {1e308, -1e308, 0},
                                       {5e-324, 1e300, 1e140},
                                       {1e-300, 1e140},
                                       {-1e-300, 1e-300},
                                       {nan, 1, inf, 2, -inf},
                                       {nan, inf},
                                       {7}})
    for (const bool as_x : {false, true}) {
      chart::Points points;
      for (const double v : y) as_x ? points.emplace_back(v, 1.0) : points.emplace_back(1.0, v);
      const Plot p = plot({{"a", points}}, {.markers = true, .log_x = as_x});
      CHECK(p.encode_png({.scale = 0.5}).size() > 100);
      CHECK(p.svg().find("nan") == std::string::npos);
      CHECK(p.text({.rows = 6}).size() > 10);
    }
}

TEST_CASE("plot: sixels are the pixels, each once, in no more colours than terminals have") {
  for (const auto& [w, h] : {std::pair{1, 1}, {7, 13}, {200, 6}})
    for (const u64 run : {1, 50}) {
      const Pixels p = noise(w, h, 200, run);
      CHECK(greatest_difference(drawn(chart::sixels(p)), p) <= 2);  // they are told in per cent
    }
  const Pixels many = noise(60, 60, 1 << 20, 1);
  CHECK(greatest_difference(drawn(chart::sixels(many)), many) <= 255 / 5 / 2 + 2);
  const Pixels picture = drawn(two_curves().sixel());
  CHECK(picture.width == 760);
  CHECK(picture.height == 420);
}

TEST_CASE("plot: lines of characters, one letter a series where there are no colours") {
  const std::string text = two_curves().text({.columns = 40, .rows = 9, .utf8 = false});
  CHECK(text ==
        "Loss (nats)\n"
        "* Adam  + SGD\n"
        "   4.21 |+++\n"
        "        |  *+++++\n"
        "        |     ***+++++++++++++++++\n"
        "        |         ******          ++++++\n"
        "        |               **********\n"
        "   0.29 |                         ******\n"
        "         0                        step 3\n");
  // Braille with colours, and never more columns than asked for.
  const std::string blocks = two_curves().text({.columns = 50, .rows = 12, .color = true});
  CHECK(mentions(blocks, "\x1b[38;5;33m⠤⠤\x1b[0m Adam"));
  CHECK(mentions(blocks, "\x1b[38;5;208m"));
  for (const int columns : {20, 37, 79}) {
    const std::string plain =
        plot({{"a long name of a curve of several words é", std::vector<double>{1, 2}},
              {"\x1b[2J\n", std::vector<double>{2, 1}}},
             {.title = std::string(100, 'x')})
            .text({.columns = columns, .rows = 8});
    CHECK(plain.find('\x1b') == plain.npos);
    int width = 0;
    for (const char c : plain) {
      width = c == '\n' ? 0 : width + ((c & 0xC0) != 0x80);
      REQUIRE(width <= columns);
    }
  }
  CHECK(mentions(plot({{"", std::vector<double>{}}}).text(), "no finite value"));
  CHECK(two_curves().text({.columns = 5}) == two_curves().text({.columns = 20}));
  // A number that no axis has is a gap, as in pixels.
  const double huge = 1e160, nan = std::nan("");
  const auto of = [](double v) {
    return plot({{"", std::vector<double>{1, 2, v, 2, 1}}}).text({.columns = 40, .rows = 9});
  };
  CHECK(of(huge) == of(nan));
  CHECK(of(-huge) == of(nan));
}

namespace {

// A terminal that answers a question with `answer`, or not at all.
class FakeTerminal {
 public:
  explicit FakeTerminal(std::string answer, winsize size = {30, 90, 900, 600},
                        const std::function<void()>& when_asked = {}) {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0)
      SKIP_TEST("no pseudo-terminal here");
    ::ioctl(master_, TIOCSWINSZ, &size);
    slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    REQUIRE(slave_ >= 0);
    ::tcgetattr(slave_, &before_);
    reader_ = std::thread([this, answer, when_asked] {
      char part[4096];
      for (ssize_t n; (n = ::read(master_, part, sizeof part)) > 0;) {
        seen_.append(part, size_t(n));
        if (answer.empty() || answered_ || !seen_.ends_with("\x1b[c")) continue;
        answered_ = true;
        if (when_asked) when_asked();
        if (::write(master_, answer.data(), answer.size()) < 0) return;
      }
    });
  }
  ~FakeTerminal() { close(); }
  int fd() const { return slave_; }
  void type(const char* keys) { REQUIRE(::write(master_, keys, std::strlen(keys)) > 0); }
  bool modes_as_before() const {
    termios now{};
    ::tcgetattr(slave_, &now);
    return now.c_lflag == before_.c_lflag && now.c_cc[VMIN] == before_.c_cc[VMIN];
  }
  // All that was written to it.
  std::string close() {
    if (slave_ >= 0) ::close(std::exchange(slave_, -1));
    if (reader_.joinable()) reader_.join();
    if (master_ >= 0) ::close(std::exchange(master_, -1));
    return seen_;
  }

 private:
  int master_ = -1, slave_ = -1;
  termios before_{};
  std::thread reader_;
  std::string seen_;
  bool answered_ = false;
};

const std::string kQuestion = "\x1b]11;?\x1b\\\x1b[c";
// Long enough for a machine that does much else.
constexpr ShowOptions patient(int fd) { return {.fd = fd, .answer_seconds = 30}; }

}  // namespace

TEST_CASE("plot: show draws what the terminal says that it can, once asked") {
  const Environment term("TERM", "xterm"), form("WT_PLOT", nullptr), locale("LC_ALL", "C.UTF-8"),
      plain("NO_COLOR", nullptr);
  FakeTerminal graphics("\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;4;22c", {30, 90, 500, 600});
  FakeTerminal letters("\x1b[?62;22;14c"), silent(""), dumb("\x1b[?62;4c");  // all open: four names
  CHECK(two_curves().show(patient(graphics.fd())) == PlotForm::sixel);
  CHECK(graphics.modes_as_before());
  CHECK(two_curves().show(patient(graphics.fd())) == PlotForm::sixel);
  const std::string picture = graphics.close();
  CHECK(picture.starts_with(kQuestion + "\x1bP0;1q\"1;1;500;420"));  // as wide as the window
  CHECK(mentions(picture, ";2;100;100;100"));                        // on white, as it said
  CHECK(picture.find(kQuestion, 1) == picture.npos);
  CHECK(two_curves().show(patient(letters.fd())) == PlotForm::blocks);
  CHECK(letters.modes_as_before());
  const std::string blocks = letters.close();
  CHECK(blocks.starts_with(kQuestion + "Loss (nats)"));
  CHECK(mentions(blocks, "\x1b[38;5;33m⠤⠤"));
  CHECK(two_curves().show({.fd = silent.fd(), .answer_seconds = 0.05}) == PlotForm::blocks);
  CHECK(silent.modes_as_before());
  {
    const Environment no_term("TERM", "dumb");
    CHECK(two_curves().show(patient(dumb.fd())) == PlotForm::ascii);
  }
  {
    const Environment wanted("WT_PLOT", "ascii");
    CHECK(two_curves().show(patient(dumb.fd())) == PlotForm::ascii);
  }
  const std::string text = dumb.close();
  CHECK(text.find('\x1b') == text.npos);  // not asked, no colours
  CHECK(mentions(text, "* Adam  + SGD"));
}

TEST_CASE("plot: show writes nothing where there is no terminal, whatever the environment says") {
  const TempDir dir;
  const int file = ::open((dir / "out").c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(file >= 0);
  for (const char* value : {"sixel", "blocks", "ascii"}) {
    const Environment form("WT_PLOT", value);
    CHECK(two_curves().show({.fd = file}) == PlotForm::off);
    CHECK(two_curves().show({.form = PlotForm::sixel, .fd = file}) == PlotForm::off);
  }
  ::close(file);
  CHECK(slurp(dir / "out").empty());
  FakeTerminal terminal("");
  const Environment form("WT_PLOT", "off");
  CHECK(two_curves().show({.fd = terminal.fd()}) == PlotForm::off);
  const Environment wrong("WT_PLOT", "bars");
  CHECK(
      mentions(message_of([&] { (void)two_curves().show({.fd = terminal.fd()}); }),
               "UsageError: [plot] WT_PLOT is \"bars\"\n  Try sixel, blocks, ascii, off or auto"));
  CHECK(terminal.close().empty());
}

namespace {

int raw_terminal = -1;
volatile sig_atomic_t signals_at_raw = 0, signals_after = 0;
void note_modes(int) {
  termios now{};
  ::tcgetattr(raw_terminal, &now);
  if (now.c_lflag & ICANON)
    signals_after = signals_after + 1;
  else
    signals_at_raw = signals_at_raw + 1;
}

}  // namespace

TEST_CASE("ask_terminal: a signal that would end or stop the process finds the modes as before") {
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGTSTP}) {
    for (const bool own : {true, false}) {  // or a thread that knows nothing of it gets it
      INFO(signal << (own ? ", own thread" : ", another thread"));
      signals_at_raw = 0;
      signals_after = 0;
      const auto before = ::signal(signal, note_modes);
      const pthread_t asking = ::pthread_self();
      FakeTerminal terminal("\x1b[?4c", {30, 90, 900, 600},
                            [=] { ::pthread_kill(own ? asking : ::pthread_self(), signal); });
      raw_terminal = terminal.fd();
      CHECK(wt::detail::ask_terminal(terminal.fd(), 30).sixel);
      ::signal(signal, before);
      CHECK(signals_at_raw == 0);
      CHECK(signals_after == 1);
    }
  }
}

TEST_CASE("ask_terminal: attributes, background, and letters that were typed ahead") {
  using wt::detail::ask_terminal;
  const auto answer = [](const std::string& text) {
    FakeTerminal terminal(text);
    return ask_terminal(terminal.fd(), 30);
  };
  CHECK(answer("\x1b[?4c").sixel);
  CHECK(!answer("\x1b[?64;14;40c").sixel);
  CHECK(answer("\x1b]11;rgb:1212/1616/1c1c\x07\x1b[?1;2c").dark);
  CHECK(!answer("\x1b]11;rgb:f/f/e\x07\x1b[?1;2c").dark);
  CHECK(answer("\x1b]11;rgb:zz\x07\x1b[?1;2c").dark);
  CHECK(answer("\x1b[?1;2c").answered);
  FakeTerminal silent("");
  CHECK(ask_terminal(silent.fd(), 0.05).asked);
  int others[8];  // so that its name is none that was asked before
  for (int& other : others) other = ::posix_openpt(O_RDWR | O_NOCTTY);
  FakeTerminal busy("\x1b[?4c");
  for (const int other : others) ::close(other);
  busy.type("ls\n");
  for (int n = 0; n == 0;) ::ioctl(busy.fd(), FIONREAD, &n);  // until they have come
  CHECK(!ask_terminal(busy.fd(), 30).asked);
  const Environment term("TERM", "xterm"), form("WT_PLOT", nullptr);
  CHECK(two_curves().show(patient(busy.fd())) == PlotForm::blocks);  // not asked either
  char typed[8] = {};
  CHECK(::read(busy.fd(), typed, sizeof typed) == 3);
  CHECK(std::string(typed) == "ls\n");
  CHECK(busy.modes_as_before());
  CHECK(two_curves().show(patient(busy.fd())) == PlotForm::sixel);  // and asked the next time
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  CHECK(!ask_terminal(pipe[1], 30).asked);
  ::close(pipe[0]), ::close(pipe[1]);
}
