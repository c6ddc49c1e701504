// How many threads there may be: by the processors, by the environment. Internal; core/device.h has
// num_threads().
#pragma once
#include "warptape/core/macros.h"

namespace wt::detail {

// Logical processors that this process may run on (taskset, cpusets, a launcher's binding).
WT_API int processors();

// The first number of OMP_NUM_THREADS ("4", or "4,2" by levels of nesting); 0: there is none, or
// what it says is no number of threads, which OpenMP's own libraries pass over too.
WT_API int threads_of_environment();

}  // namespace wt::detail
