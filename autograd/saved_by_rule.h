// How many bytes the rules about saved tensors have spared: SaveScope's policies, and the reuse of
// operands that were given up.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt::memory {

enum class SavingRule : u8 {
  bit_mask,   // a bit an element instead of a relu's output
  recompute,  // made again in backward (SavePolicy::recompute; checkpoint() is not counted)
  invert,     // computed from the output in backward
  offload,    // held by the host
  reuse,      // not saved at all: an operator worked in the storage of an rvalue
};
inline constexpr int kNumSavingRules = 5;
WT_API const char* saving_rule_name(SavingRule r);

struct SavedBytes {
  i64 bytes = 0;  // that the tape, or the operator's result, did not take
  i64 tensors = 0;
};
struct SavedByRule {
  SavedBytes rules[kNumSavingRules];
  const SavedBytes& operator[](SavingRule r) const { return rules[int(r)]; }
};

// What this thread's operators have spared since its start or the last reset. A tensor that several
// operators would have shared counts once; one that another operator holds all the same counts
// nothing.
WT_API SavedByRule saved_by_rule();
WT_API void reset_saved_by_rule();

}  // namespace wt::memory

namespace wt::detail {
extern constinit thread_local memory::SavedByRule thread_saved;
inline void count_saved(memory::SavingRule r, i64 bytes, i64 tensors = 1) {
  memory::SavedBytes& s = thread_saved.rules[int(r)];
  s.bytes += bytes;
  s.tensors += tensors;
}
}  // namespace wt::detail
