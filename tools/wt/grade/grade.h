// Grading a kernel file: what docs/grading.md describes. Internal.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/tools/wt/grade/verdict.h"

namespace wt::grade {

class Build;

struct GradeOptions {
  std::string file, op;
  std::vector<std::string> variants;  // by name; empty: all of the file
  u64 seed = 1;
  double seconds = 20;          // of all runs of a variant, compilations aside
  double compile_seconds = 60;  // of each
  bool nvcc = false;            // on the emulated device, too, where there is one
  std::string keep;             // a folder for what is compiled; empty: one that is removed
  // What was compiled for another operator of the same file, in the same folder; null: nothing.
  Build* build = nullptr;
};

// A verdict for each variant of the file, in its order, as soon as it is there; one without a
// variant where the file gives none. UsageError for an operator that is not graded or a variant
// that is not in the file, DataError for a file that cannot be read, NotAvailable without compiler.
// Returns whether all passed.
bool grade_file(const GradeOptions& o, const std::function<void(const Verdict&)>& say);

}  // namespace wt::grade
