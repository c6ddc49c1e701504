// The rankings that warptape ships with: tune files (kernels/dispatch/run_tune_file.h) of GPUs that
// were measured. They hold for a device of the same name while its user has no file, and
// WT_TUNE=off is not set. Host code only. Internal.
#pragma once

namespace wt::detail {

// Texts of bench/results/<device>/tune.tsv, made a part of the library by cmake/tuning.cmake; null
// ends them.
extern const char* const kShippedTuning[];
// For tests: takes these instead, and for any device; null: its own again.
void ship_tuning(const char* const* texts);

}  // namespace wt::detail
