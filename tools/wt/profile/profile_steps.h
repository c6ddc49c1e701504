// Some steps of a training under the profiler: `wt profile` and `wt train --profile`.
#pragma once
#include <optional>
#include <string>

#include "warptape/core/profile.h"
#include "warptape/tools/wt/training/train.h"

namespace wt::tools {

class StepProfiler {
 public:
  // Of a run, "charlm on cpu", that will take `steps` more steps; the first two are left out where
  // there are enough. Throws UsageError for a table that there is none of.
  StepProfiler(const ProfileRequest& r, std::string run, i64 steps);
  // What was recorded of a run that something has ended is written and printed all the same.
  ~StepProfiler();
  StepProfiler(const StepProfiler&) = delete;
  StepProfiler& operator=(const StepProfiler&) = delete;

  void begin_step();
  void end_step();
  // Writes table.txt, profile.json, profile.csv, trace.json, timeline.html and roofline.html into
  // the request's folder (CheckpointError) and prints the table to stdout. Nothing the second time.
  void finish();

 private:
  ProfileRequest request_;
  std::string run_;
  i64 left_out_, step_ = 0;  // begun so far
  std::optional<profiler::Scope> scope_;
  std::optional<profiler::Profile> profile_;
  bool finished_ = false;
};

// The rows that the request asks for.
profiler::TableOptions table_options(const ProfileRequest& r);

}  // namespace wt::tools
