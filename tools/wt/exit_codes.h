// What the process of the wt command returns; every number means one thing to a script.
#pragma once
#include <exception>
#include <new>

#include "warptape/core/error.h"

namespace wt::tools {

enum ExitCode : int {
  kExitOk = 0,
  kExitBug = 1,      // ours
  kExitUsage = 2,    // an option or argument that cannot be meant; a part that this build lacks
  kExitData = 3,     // a file that cannot be read as what it should be
  kExitMemory = 4,   // out of memory, on the host or a device
  kExitNumeric = 5,  // NaN or infinity where the policy says stop
  kExitDevice = 6,   // hardware or driver
  kExitPeer = 7,     // another rank
  kExitOutput = 8,   // an output or checkpoint that cannot be written
  kExitDiffer = 9,   // wt diff: two runs differ beyond the bounds of their dtypes
  kExitFound = 10,   // wt doctor: there are some
  kExitFailed = 11,  // wt grade, wt lab: a kernel, or a lab, does not pass
  kExitInterrupted = 130,
  kExitTerminated = 143,
};

inline int exit_code_of(const std::exception& error) noexcept {
  if (const auto* const ours = dynamic_cast<const Error*>(&error)) return ours->exit_code();
  if (dynamic_cast<const std::bad_alloc*>(&error)) return kExitMemory;
  return kExitBug;
}

}  // namespace wt::tools
