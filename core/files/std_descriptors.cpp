#include "warptape/core/std_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace wt {

void hold_standard_descriptors() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The wrong way round, as glibc does it for set-user-ID programs. open() takes the lowest free
    // number, which is this one. It stays open in children, which have the same need.
    const int way = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", way) < 0) (void)::open("/", O_RDONLY);  // a chroot without /dev
  }
}

}  // namespace wt
