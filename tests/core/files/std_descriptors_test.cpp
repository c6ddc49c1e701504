#include "warptape/core/std_descriptors.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/temp_dir.h"

namespace {

// The exit code of a child that has the descriptors of `closed` (a bit each) closed.
int in_child(unsigned closed, const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (int fd = 0; fd < 3; ++fd)
      if (closed >> fd & 1) ::close(fd);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool fails_with_ebadf(long result) { return result < 0 && errno == EBADF; }

}  // namespace

TEST_CASE("standard descriptors: none of the three numbers goes to a file, whichever were closed") {
  const TempDir dir;
  const std::string path = dir / "file";
  for (unsigned closed = 0; closed < 8; ++closed) {
    CAPTURE(closed);
    CHECK(in_child(closed, [&] {
            wt::hold_standard_descriptors();
            const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0666);
            return fd > 2 ? 0 : 10 + fd;
          }) == 0);
  }
}

TEST_CASE("standard descriptors: what was closed still fails, what was open still works") {
  const TempDir dir;
  const std::string path = dir / "out";
  CHECK(in_child(7, [] {
          wt::hold_standard_descriptors();
          char c = 'x';
          return fails_with_ebadf(::read(0, &c, 1)) && fails_with_ebadf(::write(1, &c, 1)) &&
                         fails_with_ebadf(::write(2, &c, 1))
                     ? 0
                     : 1;
        }) == 0);
  CHECK(in_child(5, [&] {
          const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0666);  // 0: the parent's gap
          ::dup2(fd, 1);
          ::close(fd);
          wt::hold_standard_descriptors();
          return ::write(1, "kept", 4) == 4 ? 0 : 1;
        }) == 0);
  CHECK(slurp(path) == "kept");
}
