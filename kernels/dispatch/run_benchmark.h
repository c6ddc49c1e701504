// What benchmark() (core/matmul_precision.h) does: the first launch at some arguments (contract,
// dtype, sizes, layout, the precision of f32 products) is made by every variant that takes them,
// each is timed, and from then on the fastest is launched there. What they wrote is put back before
// the next one and before the launch itself. cuDNN's engines are timed as its variant is. A variant
// is proved first, as first uses are (run_first_use.h).
//
// What was found is kept as rows of the tune file (kernels/dispatch/run_tune_file.h), where it
// holds for such arguments alone, under this build. cuda; simt where WT_TUNE names a file. Not
// timed: what the user names (VariantScope, WT_KERNEL), launches while a graph is recorded, and
// contracts that cannot be launched twice. Host code only.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt::detail {

struct ErasedContract;

// The variant to launch in the place of `chosen`, after timing them where nobody has.
const void* timed_variant(const ErasedContract& c, const void* args, const Launch& l,
                          const void* chosen);

// For tests: what is known is forgotten.
void forget_timings();

}  // namespace wt::detail
