// The loss in characters.
#include "warptape/tools/wt/reports/loss_curve.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "warptape/core/progress.h"
#include "warptape/tests/support/catch.h"

using wt::tools::LossCurve;
using Text = std::vector<std::string>;

TEST_CASE("loss curve: a falling line, in ASCII and in braille") {
  LossCurve c;
  for (int i = 0; i <= 19; ++i) c.add(i, 19 - i);
  const Text ascii = c.lines(29, 10, false);
  REQUIRE(ascii.size() == 11);
  for (const std::string& line : ascii) CHECK(line.size() <= 29);
  CHECK(ascii[0].substr(8) == "|." + std::string(19, ' '));  // 6 % of the scale are above it
  CHECK(ascii[9].substr(8) == "|" + std::string(19, ' ') + "'");
  CHECK(ascii[10].starts_with("         0 "));
  CHECK(ascii[10].ends_with("step 19"));
  const Text braille = c.lines(29, 5, true);
  REQUIRE(braille.size() == 6);
  CHECK(braille[0].find("\u2502\u2822\u2884") != std::string::npos);
  for (const std::string& line : braille) {
    int width = 0;
    for (const char b : line) width += (b & 0xC0) != 0x80;
    CHECK(width <= 29);
  }
}

TEST_CASE("loss curve: gaps, one point, no point, no room") {
  LossCurve c;
  CHECK(c.lines(80, 10, true).empty());
  c.add(1, NAN);
  CHECK(c.lines(80, 10, true).empty());
  c.add(2, 1.0);
  CHECK(c.lines(80, 10, false).size() == 11);
  c.add(3, INFINITY);
  c.add(4, 2.0);
  for (const int columns : {1, 10, 18, 19, 200})
    for (const int rows : {-3, 1, 2, 50})
      CHECK(c.lines(columns, rows, true).size() ==
            (columns > 18 && rows > 1 ? size_t(rows) + 1 : 0));
  // A point on each side of the gap, nothing between.
  std::string all;
  for (const std::string& line : c.lines(40, 4, false))
    all += line.substr(std::min(line.size(), size_t(9)));
  int dots = 0;
  for (const char b : all) dots += b == '\'' || b == '.' || b == ':';
  CHECK(dots == 2);
}

TEST_CASE("loss curve: on a terminal it stands above the bar, elsewhere there is none") {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0)
    SKIP_TEST("no pseudo-terminal here");
  const winsize size{12, 40, 0, 0};  // six lines of curve
  ::ioctl(master, TIOCSWINSZ, &size);
  const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  REQUIRE(slave >= 0);
  for (const bool dumb : {false, true}) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::dup2(slave, STDERR_FILENO);
      ::setenv("LANG", "C.UTF-8", 1), ::setenv("TERM", dumb ? "dumb" : "xterm", 1);
      for (const char* name : {"LC_ALL", "LC_CTYPE", "COLUMNS", "LINES"}) ::unsetenv(name);
      wt::Progress bar({.desc = "t", .total = 4});
      wt::tools::LiveCurve curve;
      curve.add(1, 2.0);
      curve.add(7, 1.0);  // within a fifth of a second: not drawn yet
      curve.draw();
      bar.update(2);
      bar.close();
      ::_exit(::write(STDERR_FILENO, "end", 3) != 3);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    std::string out;
    while (!out.ends_with("end")) {  // the terminal hands it over in pieces, some time later
      char text[4096];
      const ssize_t n = ::read(master, text, sizeof text);
      REQUIRE(n > 0);
      out.append(text, size_t(n));
    }
    INFO(out);
    CHECK((out.find("step 7") == out.npos) == dumb);
    CHECK((out.find("\u2502") == out.npos) == dumb);
    if (dumb) continue;
    // The first drawing goes up no line, the next one those of the curve and its steps.
    CHECK(out.find("\x1b[7A\r") != out.npos);
    CHECK(out.find("\x1b[8A") == out.npos);
  }
  ::close(slave);
  ::close(master);
}
