#include "warptape/autograd/saved_by_rule.h"

namespace wt {
namespace detail {
constinit thread_local memory::SavedByRule thread_saved = {};
}

namespace memory {

const char* saving_rule_name(SavingRule r) {
  static constexpr const char* kNames[kNumSavingRules] = {"bit_mask", "recompute", "invert",
                                                          "offload", "reuse"};
  return kNames[int(r)];
}

SavedByRule saved_by_rule() { return detail::thread_saved; }
void reset_saved_by_rule() { detail::thread_saved = {}; }

}  // namespace memory
}  // namespace wt
