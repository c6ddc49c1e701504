// Ranges for NVIDIA's tools (Nsight Systems and Compute), under the names that profiles, traces and
// errors use: "conv2.linear.backward <- net.cpp:57".
//
//   const nvtx::Scope ranges;                  // every operator, backward node, kernel and user's
//   range { nvtx::Range r("epoch 3"); ... }          // or by hand, to the end of the block
//   nvtx::range_push("epoch 3"); ...; nvtx::range_pop();
//
//   WT_NVTX=1 nsys profile --trace cuda,nvtx ./program   # a Scope for the whole program
//
// They are NVTX's own, in the domain "warptape", by the header-only library of the CUDA toolkit: a
// build with one has them, and in other builds and where no tool listens all of this does nothing.
// docs/traces.md shows them in the tools.
#pragma once
#include <string>
#include <string_view>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt::nvtx {

// Does a tool listen to ranges? False in builds without the library.
WT_API bool listening();
// Why this build has none; empty where it does.
WT_API std::string why_not();

// Of this thread, inside of each other.
WT_API void range_push(std::string_view name);
// Ends the innermost one of range_push and Range. One too many does nothing.
WT_API void range_pop();

class WT_GUARD Range {
 public:
  [[nodiscard]] explicit Range(std::string_view name) { range_push(name); }
  ~Range() { range_pop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

// While one exists, what observers hear of (core/profiler.h) becomes ranges: also when errors
// unwind them, and profiler::range(). Several at a time count as one, and as one of the four
// observers; where no tool listens when the first one begins, as none. End it when no other thread
// runs operators.
class WT_GUARD Scope {
 public:
  [[nodiscard]] WT_API Scope();
  WT_API ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

// --- for the library ---
// Begins a Scope for the rest of the program where WT_NVTX is set to anything but 0; a warning
// where this build has no ranges.
void follow_environment();

namespace detail {
// What is used of NVTX. Colours are ARGB; a category has a name in its domain.
struct Api {
  void* (*domain)(const char* name);  // null: nobody listens
  void (*name_category)(void* domain, u32 category, const char* name);
  void (*push)(void* domain, const char* text, u32 category, u32 argb);
  void (*pop)(void* domain);
};
const Api* header_api();  // null: built without the header
// For tests: a sink of their own; null: header_api() again.
WT_API void use_api(const Api* api);
}  // namespace detail

}  // namespace wt::nvtx
