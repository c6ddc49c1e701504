// Standard output that cannot be written is an error, not a success without words.
#pragma once
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "warptape/core/error.h"

namespace wt::tools {

// why: an errno; 0: not known
inline CheckpointError lost_output(int why) {
  return CheckpointError(
      str("standard output cannot be written", why ? ": " : "", why ? std::strerror(why) : ""));
}

// Throws CheckpointError if anything printed so far is lost. Who flushes in between must do it by
// this: the reason is known only to the flush that fails. A reader that has gone away wants no more
// and no message either (where SIGPIPE is not ignored, it ends the process before this is reached):
// false.
inline bool flush_to_reader() {
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout);
  const int why = errno;
  if (lost && why != EPIPE) throw lost_output(why);
  if (lost) std::clearerr(stdout);  // or the next flush would find a loss without a reason
  return !lost;
}
inline void flush_stdout() { (void)flush_to_reader(); }

}  // namespace wt::tools
