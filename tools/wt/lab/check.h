// Checks a student's file: what docs/labs.md describes. Internal.
#pragma once
#include <string>

#include "warptape/tools/wt/grade/compile.h"
#include "warptape/tools/wt/lab/lab.h"
#include "warptape/tools/wt/lab/outcome.h"

namespace wt::labs {

struct CheckOptions {
  std::string file;  // of the student
  u64 seed = 1;
  double seconds = 20;  // of each variant of a kernel lab, and of each case of a host lab
  bool nvcc = true;     // kernels on the emulated device, too, where there is one
};

// Whatever the student's file does becomes rows of the outcome. DataError for a file that cannot
// be read, NotAvailable without compiler or sandbox, CheckpointError without room.
Outcome check_lab(const Lab& lab, const CheckOptions& o);

inline constexpr double kCompileSeconds = 60;  // of processor time
// The two kinds; rows, notes and variants are added.
void check_kernels(const Lab& lab, const CheckOptions& o, Outcome& to);
void check_cases(const Lab& lab, const CheckOptions& o, Outcome& to);

// The one row of a file that does not compile.
OutcomeRow row_of_compiler(const Lab& lab, const grade::Compiled& c, const std::string& file);
// One that nobody knows beforehand.
u64 fresh_seed();
// A row that failed, with the first level of its hint, of the lab or else of what may go wrong in
// all of them.
OutcomeRow failed_row(const Lab& lab, const std::string& name, int points, std::string reason,
                      const std::string& hint_id);

}  // namespace wt::labs
