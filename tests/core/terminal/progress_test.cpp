#include "warptape/core/terminal/progress_head.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

#include "warptape/tests/support/catch.h"

using wt::Progress;
using wt::ProgressStyle;
using wt::detail::format_progress;

namespace {

// A bar with its own time and its own terminal.
struct FakeBar {
  double now = 0;
  std::string out;

  wt::ProgressOptions options(wt::i64 total, ProgressStyle style, int columns = 60) {
    return {.desc = "train",
            .total = total,
            .style = style,
            .columns = columns,
            .sink = [this](std::string_view text) { out += text; },
            .clock = [this] { return now; }};
  }
  int count(char c) const { return int(std::count(out.begin(), out.end(), c)); }
};

}  // namespace

// The expected lines are what tqdm 4.70 prints for the same figures.
TEST_CASE("progress: the line has tqdm's grammar") {
  CHECK(format_progress({"epoch 3/20", "it", "loss=0.84", 160, 391, 4.4, 36.4, 72}) ==
        "epoch 3/20:  41%|████      | 160/391 [00:04<00:06, 36.40it/s, loss=0.84]");
  CHECK(format_progress({"", "it", "", 0, 391, 0, 0, 50}) ==
        "  0%|                     | 0/391 [00:00<?, ?it/s]");
  CHECK(format_progress({"", "it", "", 391, 391, 4000, 0.098, 60}) ==
        "100%|███████████████████| 391/391 [1:06:40<00:00, 10.20s/it]");
  CHECK(format_progress({"", "B", "", 10, -1, 61, 9.5, 60}) == "10B [01:01,  9.50B/s]");
  CHECK(format_progress({"", "it", "", 12, 10, 1, 12, 60}) == "12it [00:01, 12.00it/s]");
  CHECK(format_progress({"d", "it", "", 5, 10, 1, 5, 50, ProgressStyle::ascii_bar}) ==
        "d:  50%|#####5     | 5/10 [00:01<00:01,  5.00it/s]");
  CHECK(format_progress({"d", "it", "", 5, 10, 1, 5, 50, ProgressStyle::lines}) ==
        "d:  50% 5/10 [00:01<00:01,  5.00it/s]");
  CHECK(format_progress({"", "it", "", 0, 0, 0, 0, 40}) ==
        "100%|█████████| 0/0 [00:00<00:00, ?it/s]");
}

TEST_CASE("progress: a narrow terminal gets a cut line, never a wrapped one") {
  for (int columns = 1; columns < 100; ++columns) {
    const std::string line = format_progress({"épreuve", "it", "", 5, 10, 1, 5, columns});
    int width = 0;
    for (const char c : line) width += (c & 0xC0) != 0x80;
    CAPTURE(columns, line);
    CHECK(width <= columns);
  }
}

TEST_CASE("progress: a terminal is redrawn at most ten times a second") {
  FakeBar fake;
  {
    Progress bar(fake.options(1000, ProgressStyle::bar));
    for (int i = 0; i < 1000; ++i) {
      fake.now += 0.001;
      bar.update();
    }
    CHECK(fake.count('\r') >= 10);
    CHECK(fake.count('\r') <= 11);
    CHECK(fake.count('\n') == 0);
  }
  CHECK(fake.count('\n') == 1);
  CHECK(fake.out.substr(fake.out.rfind('\r')) ==
        "\rtrain: 100%|██████████| 1000/1000 [00:01<00:00, 1000.00it/s]\n");
}

TEST_CASE("progress: the rate follows a change of speed by an average of weight 0.3") {
  FakeBar fake;
  Progress bar(fake.options(100, ProgressStyle::bar));
  fake.now = 1;
  bar.update(10);  // 10 a second
  fake.now = 2;
  bar.update(20);  // then 20: (0.3*20 + 0.7*0.3*10) / (0.3 + 0.7*0.3) = 15.88
  CHECK(fake.out.find("10.00it/s") != fake.out.npos);
  CHECK(fake.out.substr(fake.out.rfind('\r')).find("15.88it/s") != fake.out.npos);
  bar.close();  // the average of all: 30 in 2 s
  CHECK(fake.out.substr(fake.out.rfind('\r')).find("15.00it/s") != fake.out.npos);
}

TEST_CASE("progress: elsewhere it is plain lines, every 10 s or 5 %, no faster than one a second") {
  FakeBar fake;
  {
    Progress bar(fake.options(100, ProgressStyle::lines));
    for (int i = 0; i < 40; ++i) {  // fast: 1 % every 1/8 s
      fake.now += 0.125;
      bar.update(1, "loss=1");
    }
    CHECK(fake.count('\n') == 5);
    for (int i = 0; i < 30; ++i) {  // slow: 1 % every 4 s
      fake.now += 4;
      bar.update();
    }
    CHECK(fake.count('\n') == 15);
  }
  CHECK(fake.count('\r') == 0);
  CHECK(fake.count('\n') == 16);
  CHECK(fake.out.substr(0, fake.out.find('\n')) ==
        "train:   8% 8/100 [00:01<00:11,  8.00it/s, loss=1]");
}

TEST_CASE("progress: a line of its own goes above the bar") {
  FakeBar fake;
  Progress bar(fake.options(10, ProgressStyle::ascii_bar, 40));
  fake.out.clear();
  bar.write("step 3: overflow");
  CHECK(fake.out == "\r" + std::string(40, ' ') +
                        "\rstep 3: overflow\n\rtrain:   0%|     | 0/10 [00:00<?, ?it/s]");
}

TEST_CASE("progress: control characters never reach the terminal") {
  FakeBar fake;
  auto options = fake.options(10, ProgressStyle::bar);
  options.desc = "a\x1b[31m";
  Progress bar(options);
  fake.now = 1;
  bar.update(1, "x\ny");
  CHECK(fake.out.find('\x1b') == fake.out.npos);
  CHECK(fake.out.find('\n') == fake.out.npos);
  CHECK(fake.out.find("x?y") != fake.out.npos);
}

TEST_CASE("progress: over a range, by reference or owned, to the end or broken off") {
  FakeBar fake;
  std::vector<int> data{1, 2, 3};
  int sum = 0;
  auto bar = wt::progress(data, fake.options(-1, ProgressStyle::bar));
  for (int& x : bar) {
    sum += x;
    x = 0;
    bar.set_postfix("sum=" + std::to_string(sum));
  }
  CHECK(sum == 6);
  CHECK(data == std::vector<int>{0, 0, 0});
  CHECK(fake.out.find("3/3") != fake.out.npos);
  CHECK(fake.out.ends_with("sum=6]\n"));

  fake.out.clear();
  for (const int x :
       wt::progress(std::vector<int>{1, 2, 3}, fake.options(-1, ProgressStyle::bar))) {
    if (x == 2) break;
  }
  CHECK(fake.out.ends_with("\n"));
  CHECK(fake.out.substr(fake.out.rfind('\r')).find(" 1/3 ") != fake.out.npos);

  fake.out.clear();
  try {
    for (const int x : wt::progress(data, fake.options(-1, ProgressStyle::bar))) {
      throw std::runtime_error(std::to_string(x));
    }
  } catch (const std::runtime_error&) {}
  CHECK(fake.out.ends_with("\n"));
}

TEST_CASE("progress: what was done before counts, but not in the rate") {
  FakeBar fake;
  auto options = fake.options(100, ProgressStyle::bar);
  options.initial = 40;
  Progress bar(options);
  CHECK(fake.out.find(" 40/100 [00:00<?, ?it/s]") != fake.out.npos);
  fake.now = 2;
  bar.update(20);  // 10 a second, 40 to go
  CHECK(fake.out.find(" 60/100 [00:02<00:04, 10.00it/s]") != fake.out.npos);
  CHECK(bar.count() == 60);
  CHECK(bar.average_rate() == 10);
}

TEST_CASE("progress: a line that is not to stay is wiped") {
  FakeBar fake;
  auto options = fake.options(10, ProgressStyle::bar, 40);
  options.leave = false;
  {
    Progress bar(options);
    bar.update(10);
  }
  CHECK(fake.out.ends_with("\r" + std::string(40, ' ') + "\r"));
  CHECK(fake.count('\n') == 0);
}

TEST_CASE("progress: disabled, it prints nothing and still counts") {
  FakeBar fake;
  auto options = fake.options(10, ProgressStyle::bar);
  options.disable = true;
  Progress bar(options);
  fake.now = 2;
  bar.update(4);
  bar.write("x");
  bar.close();
  CHECK(fake.out.empty());
  CHECK(bar.count() == 4);
  CHECK(bar.average_rate() == 2);
}

// A real pseudo-terminal, its width, and an exit that runs no destructor.
TEST_CASE("progress: std::exit ends the line on a terminal") {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) {
    SKIP_TEST("no pseudo-terminal here");
  }
  const winsize size{24, 60, 0, 0};
  ::ioctl(master, TIOCSWINSZ, &size);
  const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  REQUIRE(slave >= 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(slave, STDERR_FILENO);
    ::setenv("LANG", "C.UTF-8", 1), ::setenv("TERM", "xterm", 1);
    ::unsetenv("LC_ALL"), ::unsetenv("LC_CTYPE"), ::unsetenv("COLUMNS");
    auto* const bar = new Progress({.desc = "t", .total = 4});
    bar->update(2, "quit");
    ::close(STDOUT_FILENO);
    std::exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  ::close(slave);
  char text[1024];
  std::string out;
  for (ssize_t n; (n = ::read(master, text, sizeof text)) > 0;) out.append(text, std::size_t(n));
  ::close(master);
  INFO(out);
  REQUIRE(WIFEXITED(status));
  CHECK(out.ends_with("\n"));
  const std::string first = out.substr(1, out.find_last_of('\r') - 1);
  int width = 0;
  for (const char c : first) width += (c & 0xC0) != 0x80;
  CHECK(width == 59);
}

TEST_CASE("progress: a stderr whose reader has gone ends nothing") {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  ::close(pipe[0]);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(pipe[1], STDERR_FILENO);
    {
      Progress bar({.total = 2, .style = ProgressStyle::ascii_bar});
      bar.write("a line");
      bar.update(2);
    }
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    ::_exit(::sigismember(&blocked, SIGPIPE));  // as it was
  }
  ::close(pipe[1]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

namespace {

// What a terminal shows of what was written to it: \r, \n, and the sequences A, B, J and K.
class Terminal {
 public:
  explicit Terminal(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '\r') {
        column_ = 0;
      } else if (c == '\n') {
        down(1);
        column_ = 0;
      } else if (c == '\x1b') {
        size_t n = 0;
        for (i += 2; text[i] >= '0' && text[i] <= '9'; ++i) n = n * 10 + size_t(text[i] - '0');
        if (text[i] == 'A') row_ -= std::min(row_, n);
        if (text[i] == 'B') row_ = std::min(row_ + n, lines_.size() - 1);
        if (text[i] == 'J') lines_.resize(row_ + 1);
        if (text[i] == 'K' || text[i] == 'J')
          lines_[row_].resize(std::min(lines_[row_].size(), column_));
      } else {
        std::string& line = lines_[row_];
        line.resize(std::max(line.size(), column_ + 1), ' ');
        line[column_++] = c;
      }
    }
  }
  // Without blanks at the end of a line, up to the percentage of a bar.
  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (std::string line : lines_) {
      line = line.substr(0, line.find('|'));
      line.erase(line.find_last_not_of(' ') + 1);
      out.push_back(line);
    }
    return out;
  }
  size_t row() const { return row_; }

 private:
  void down(size_t n) {
    row_ += n;
    if (row_ >= lines_.size()) lines_.resize(row_ + 1);
  }
  std::vector<std::string> lines_{""};
  size_t row_ = 0, column_ = 0;
};

// Bars on stderr, which is a file meanwhile.
class Bars {
 public:
  Bars() : saved_(::dup(STDERR_FILENO)), file_(::memfd_create("stderr", 0)) {
    ::dup2(file_, STDERR_FILENO);
  }
  ~Bars() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(file_);
  }
  wt::ProgressOptions options(const std::string& desc, bool leave = true) {
    return {.desc = desc,
            .total = 10,
            .style = ProgressStyle::ascii_bar,
            .columns = 60,
            .clock = [this] { return now += 1; },
            .leave = leave};
  }
  Terminal terminal() const {
    std::string text(size_t(::lseek(file_, 0, SEEK_END)), '\0');
    if (::pread(file_, text.data(), text.size(), 0) < 0) text.clear();
    return Terminal(text);
  }
  std::vector<std::string> lines() const { return terminal().lines(); }
  double now = 0;

 private:
  int saved_, file_;
};

using Screen = std::vector<std::string>;

}  // namespace

TEST_CASE("progress: bars at once have lines of their own, and close in any order") {
  Bars bars;
  Progress a(bars.options("a"));
  a.update(1);
  CHECK(bars.lines() == Screen{"a:  10%"});
  Progress b(bars.options("b")), c(bars.options("c"));
  CHECK(bars.lines() == Screen{"a:  10%", "b:   0%", "c:   0%"});
  a.update(1);
  c.update(3);
  b.update(2);
  CHECK(bars.lines() == Screen{"a:  20%", "b:  20%", "c:  30%"});
  CHECK(bars.terminal().row() == 2);
  b.write("said\nin two lines");
  CHECK(bars.lines() == Screen{"said", "in two lines", "a:  20%", "b:  20%", "c:  30%"});
  b.close();
  CHECK(bars.lines() == Screen{"said", "in two lines", "b:  20%", "a:  20%", "c:  30%"});
  b.write("by a closed one");
  a.update(1);
  c.update(1);
  CHECK(bars.lines() ==
        Screen{"said", "in two lines", "b:  20%", "by a closed one", "a:  30%", "c:  40%"});
  a.close();
  c.update(6);
  c.close();
  CHECK(bars.lines() ==
        Screen{"said", "in two lines", "b:  20%", "by a closed one", "a:  30%", "c: 100%", ""});
}

TEST_CASE("progress: nested loops, whose inner bars come and go") {
  for (const bool leave : {true, false}) {
    Bars bars;
    Screen expected;
    Progress outer(bars.options("outer"));
    for (int epoch = 0; epoch < 3; ++epoch) {
      {
        Progress inner(bars.options("inner", leave));
        for (int i = 0; i < 10; ++i) inner.update();
        CHECK(bars.lines().back() == "inner: 100%");
        CHECK(bars.lines()[expected.size()].starts_with("outer:"));
      }
      if (leave) expected.push_back("inner: 100%");
      outer.update();
      Screen now = expected;
      now.push_back("outer:  " + std::to_string(10 * (epoch + 1)) + "%");
      Screen seen = bars.lines();
      CHECK(bars.terminal().row() == now.size() - 1);
      seen.resize(now.size());  // a wiped line may lie below
      CHECK(seen == now);
    }
    outer.close();
    CHECK(bars.terminal().row() == expected.size() + 1);
  }
}

TEST_CASE("progress: lines above the bars are replaced in place") {
  using wt::detail::set_progress_head;
  Bars bars;
  set_progress_head({"nobody sees this"});
  Progress a(bars.options("a"));
  CHECK(bars.lines() == Screen{"a:   0%"});
  set_progress_head({"one", "two"});
  a.update(2);
  CHECK(bars.lines() == Screen{"one", "two", "a:  20%"});
  a.write("said");
  {
    Progress b(bars.options("b"));
    CHECK(bars.lines() == Screen{"said", "one", "two", "a:  20%", "b:   0%"});
    set_progress_head({"three", "2", "1"});
    CHECK(bars.lines() == Screen{"said", "three", "2", "1", "a:  20%", "b:   0%"});
  }
  CHECK(bars.lines() == Screen{"said", "b:   0%", "three", "2", "1", "a:  20%"});
  set_progress_head({"one"});
  CHECK(bars.lines() == Screen{"said", "b:   0%", "one", "a:  20%"});
  a.close();
  CHECK(bars.lines() == Screen{"said", "b:   0%", "one", "a:  20%", ""});
  Progress c(bars.options("c"));
  CHECK(bars.lines() == Screen{"said", "b:   0%", "one", "a:  20%", "c:   0%"});
}

TEST_CASE("progress: where there is no terminal, bars at once are plain lines") {
  Bars bars;
  auto options = bars.options("a");
  options.style = ProgressStyle::lines;
  Progress a(options);
  options.desc = "b";
  Progress b(options);
  bars.now += 20;
  a.update(5);
  b.update(6);
  b.write("said");
  CHECK(bars.lines() == Screen{"a:  50% 5/10 [00:22<00:21,  4.40s/it]",
                               "b:  60% 6/10 [00:22<00:14,  3.67s/it]", "said", ""});
}

TEST_CASE("progress: a number stands for the numbers below it") {
  std::vector<wt::i64> seen;
  std::string text;
  for (const wt::i64 i : wt::progress(4, {.style = wt::ProgressStyle::lines,
                                         .sink = [&](std::string_view line) { text += line; }}))
    seen.push_back(i);
  CHECK(seen == std::vector<wt::i64>{0, 1, 2, 3});
  CHECK(text.find("4/4") != std::string::npos);
  for (const wt::i64 i : wt::progress(-1, {.disable = true})) FAIL(i);
}
