// The rankings that warptape ships with: tune files (kernels/dispatch/run_tune_file.h) of GPUs that
// were measured. They hold for a device of the same name while its user has no file, and
// WT_TUNE=off is not set. Host code only. Internal.
#pragma once

namespace wt::detail {

// Texts of bench/results/<device>/tune.tsv, made a part of the library by cmake/tuning.cmake; null
// ends them.
extern const char* const kShippedTuning[];
// That of simt: kernels/dispatch/simt_tune.tsv, written by tools/generators/make_simt_tuning.py.
extern const char kSimtTuning[];
// Whether simt takes the variants that cost the executor least instead of those that a GPU would
// take, for the whole process. Off unless a program asks for it, which only wants results: tests,
// counters and ledgers are about what a GPU is asked for. As every shipped ranking it gives way to
// WT_TUNE and WT_KERNEL.
void rank_simt_by_its_own_cost(bool on);
// For tests: takes these instead, and for any device; null: its own again.
void ship_tuning(const char* const* texts);

}  // namespace wt::detail
