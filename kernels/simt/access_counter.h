// How the race checker's hooks feed the counters of counters.h. Internal to kernels/simt/.
#pragma once
#include "warptape/core/profile/accesses.h"
#include "warptape/kernels/simt/race_shadow.h"
#include "warptape/kernels/simt/runtime.h"

namespace wt::simt_runtime {

extern bool counting;  // whether the functions below want to be called
extern const profiler::AccessCounter access_counter;  // for profiles

void count_grid_begin();
void count_block_begin(unsigned threads);
void count_barrier();
void count_grid_end();
// A lane's access, by instrumented code (`code`, a return address) or by the executor (`at`).
struct CountedPlace {
  const void* code;
  Loc at;
};
void count_access(unsigned thread, const void* p, size_t bytes, Touch kind, bool shared,
                  const CountedPlace& place);

}  // namespace wt::simt_runtime
