// How many threads the environment asks for. Internal; core/device.h has num_threads().
#pragma once
#include "warptape/core/macros.h"

namespace wt::detail {

// The first number of OMP_NUM_THREADS ("4", or "4,2" by levels of nesting); 0: there is none, or
// what it says is no number of threads, which OpenMP's own libraries pass over too.
WT_API int threads_of_environment();

}  // namespace wt::detail
