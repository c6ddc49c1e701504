// What a reader of files from strangers may spend. Every parser takes one of these.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

// Bytes of memory that this machine has, used or not.
WT_API u64 machine_memory() noexcept;

struct ParseLimits {
  u64 max_bytes = machine_memory();  // payload that one open file may hand out in all
  u64 max_inflated = u64{1} << 30;   // what a small compressed file may become: most_inflated()
  u64 max_header = 100'000'000;      // bytes of header, checked before anything is allocated
  u64 max_items = u64{1} << 21;      // entries: tensors, records, members
  u64 max_string = u64{16} << 20;    // bytes of one string
  u32 max_depth = 16;                // nesting

  // What `packed` bytes of gzip or deflate may become: max_inflated, or 32 times their number where
  // that is more. Deflate packs a thousand bytes into one, data that somebody made hardly ever
  // thirty: the thousand are what a bomb is made of.
  WT_API u64 most_inflated(u64 packed) const noexcept;
};

}  // namespace wt
