// Intrusive atomic reference count. No virtual, no weak count.
#pragma once
#include <atomic>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

struct RefCount {
  std::atomic<u32> value;

  WT_HOT void init() { value.store(1, std::memory_order_relaxed); }
  WT_HOT bool sole() const { return value.load(std::memory_order_acquire) == 1; }
  WT_HOT void inc() { value.fetch_add(1, std::memory_order_relaxed); }
  // True when the caller held the last reference. The last owner needs no read-modify-write
  // (8 ns): nobody else can take a reference any more.
  WT_HOT bool dec() {
    if (sole()) return true;
    return value.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
};

}  // namespace wt
