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
// The threads of a block have met at its barrier: bar_at, bar_op.
void count_barrier();
// Lanes of a warp have met in an operation.
void count_exchange(unsigned warp, uint32_t lanes, unsigned op, Loc at);
void count_grid_end();
// A lane's access, by instrumented code (`code`, a return address) or by the executor (`at`).
struct CountedPlace {
  const void* code;
  Loc at;
};
void count_access(unsigned thread, const void* p, size_t bytes, Touch kind, bool shared,
                  const CountedPlace& place);

// steps.cpp: the same, one by one, for whom the functions above call these.
extern bool stepping;
void record_grid_begin();
void record_block_begin();
void record_barrier();
void record_exchange(unsigned warp, uint32_t lanes, unsigned op, Loc at);
void record_grid_end();
void record_access(unsigned thread, const void* p, size_t bytes, Touch kind, bool shared,
                   const CountedPlace& place);

}  // namespace wt::simt_runtime
