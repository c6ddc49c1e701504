// A cpu allocator that finds what runs past a block: WT_ALLOC=guard. Internal.
#pragma once
#include "warptape/core/storage.h"

namespace wt {
namespace memory {

// This thread's cpu blocks from now on lie each on pages of their own, against the end and between
// pages that nobody may touch, hold NaN (all bits set) when handed out and vanish when released:
// reading or writing past either end, or after the release, stops the process at the instruction.
// Slow, and three mappings a block. WT_ALLOC=guard in the environment does it for all threads from
// the start.
WT_API void guard_blocks(bool on);

}  // namespace memory

namespace detail {
// The environment says WT_ALLOC=guard. Throws UsageError for a WT_ALLOC it does not know.
bool guard_wanted();
const BlockAllocator& guard_allocator();
}  // namespace detail
}  // namespace wt
