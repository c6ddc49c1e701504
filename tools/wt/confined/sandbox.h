// What a student's program may do: compute, and read files. docs/grading.md says what this holds
// and what it does not. Internal.
#pragma once
#include <string>

#include "warptape/core/types.h"

namespace wt::confined {

// To be called in a child between fork and exec: from then on, and in what it executes, system
// calls that are not on a list fail (with EPERM), and those of the following kinds raise SIGSYS,
// whose default ends the process: sockets; opening a file for writing, making, renaming, removing
// and changing files; new processes; signals to, and looks into, other processes. Threads are
// allowed, and of execve() the one of `program`, by its address. False: this kernel has no seccomp.
bool confine(const char* program);
// "open a socket", "open a file for writing or change one", ... of a system call by its number.
std::string forbidden_text(int system_call);

}  // namespace wt::confined
