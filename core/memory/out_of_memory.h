// What is said when there is no memory for a tensor. Internal to the allocator.
#pragma once
#include <string>

#include "warptape/core/device.h"

namespace wt::detail {

// What the system can still give to a process, in bytes: the kernel promises more than it has and
// kills the process that takes it up on that.
i64 available_memory();

// autograd/debug/live_graph.cpp: a line for each of the ten largest groups of tensors on `d`, of
// one operator, place and size, that this thread's graphs keep for a backward, from a hundredth of
// `held` bytes on. Empty: there are none. What other threads recorded is not looked at.
std::string largest_kept(Device d, i64 held);

// Throws OutOfMemory: operator and module, what was asked, what the device has, who holds how much,
// the largest tensors that graphs keep, the line. `why` follows the device; `room`: bytes that
// could still be had; -1: the device is asked and what it has is said.
[[noreturn]] void out_of_memory(Device d, i64 bytes, const std::string& why, i64 room = -1);

}  // namespace wt::detail
