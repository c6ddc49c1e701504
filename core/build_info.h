// What this build of the library contains: the table that configure prints, compiled in.
#pragma once
#include <span>
#include <string>

#include "warptape/core/macros.h"

namespace wt {

// One optional part; simt, which nothing has to be found for, has a row only where it is off. All
// strings are constants of the library and never null.
struct Feature {
  const char* name;        // "cuda", "openblas", ...
  const char* state;       // "on", "off" (not wanted) or "missing" (looked for, not found)
  const char* version;     // of what was found at build time; "" unless on
  const char* how_to_get;  // "" when on
  bool on() const { return state[0] == 'o' && state[1] == 'n'; }
};

struct BuildInfo {
  const char* version;     // "0.1.0"
  const char* commit;      // abbreviated commit that was configured; "" outside a checkout
  const char* compiler;    // "GNU 12.2.0"
  const char* build_type;  // "Release"
  const char* cuda_archs;  // "90a"; "" without CUDA
  const char* sanitizers;  // "address,undefined" or ""
  std::span<const Feature> features;
};

WT_API const BuildInfo& build_info();

// The row of one optional part by name, null if there is no such part.
WT_API const Feature* find_feature(const char* name);

// Why this build lacks a part and how to get it, for the end of "this build has no x: ...": it was
// switched off when it was configured, or it was looked for and not found. Empty where it has it.
WT_API std::string why_without(const Feature& part);
WT_API std::string why_without(const char* name);  // of its row

// Version of the library that runs, as 10000 * major + 100 * minor + patch: compare it with
// WARPTAPE_VERSION of warptape/version.h, which is that of the headers.
WT_API int version();

}  // namespace wt
