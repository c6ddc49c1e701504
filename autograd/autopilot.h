// Rvalues are worked on in place where that is proved legal, without being asked for.
#pragma once
#include "warptape/core/mode.h"

namespace wt {

inline constexpr u32 kSlowNoReuse = 128;  // a SlowPath bit (core/mode.h): AutopilotScope{false}

// Whether operators may work in the storage of operands that were given up (std::move, temporaries)
// and that nobody else can see. They do, unless a scope says false: to compare, or to look at what
// would be overwritten. Values and gradients are the same bits either way.
class WT_GUARD AutopilotScope {
 public:
  [[nodiscard]] explicit AutopilotScope(bool on) : off_before_((mode.slow & kSlowNoReuse) != 0) {
    mode.slow = on ? mode.slow & ~kSlowNoReuse : mode.slow | kSlowNoReuse;
  }
  ~AutopilotScope() {
    mode.slow = off_before_ ? mode.slow | kSlowNoReuse : mode.slow & ~kSlowNoReuse;
  }
  AutopilotScope(const AutopilotScope&) = delete;
  AutopilotScope& operator=(const AutopilotScope&) = delete;

 private:
  bool off_before_;
};

}  // namespace wt
