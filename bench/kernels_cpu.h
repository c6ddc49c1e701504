// The cpu's kernels against what the machine can do: the rows of `wt bench kernels`.
#pragma once
#include "warptape/bench/gpu/measure.h"

namespace wt::bench {

struct CpuKernelOptions {
  std::vector<std::string> only{};  // contracts; empty: all that have a row in bench/gpu
  int windows = 9;                  // of each row; slow rows get fewer
};

// One thread and its processor time, f32, sizes beyond the caches, the variant that would be
// chosen. Every window of a kernel has a window of the copy beside it, so that what else the
// machine does slows both.
struct CpuCeilings {
  Timing copy{};            // of all windows
  double copy_bytes = 0;    // read and written by one call
  const char* copy_by{};    // the fastest way to copy
  double gemm_gflop_s = 0;  // 1024 x 1024 x 1024, the fastest variant
  double copy_gb_s() const { return copy_bytes / copy.min_us * 1e-3; }
};

// The rows' ratios are fractions of the ceiling, minimum against minimum; `more` has `copy_gb_s`,
// that of the row's own windows, and `ratio_median`. Each row is given to `done` when it is there.
CpuCeilings measure_cpu_kernels(const CpuKernelOptions& o,
                                const std::function<void(const Row&)>& done);
// Names that `only` may have.
std::vector<std::string> cpu_kernel_names();
// The thread's processor time: while another process has the core, nothing passes.
double processor_us();
// Of the last minute; negative where it is not known.
double load_average();

}  // namespace wt::bench
