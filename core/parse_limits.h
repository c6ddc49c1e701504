// What a reader of files from strangers may spend. Every parser takes one of these.
#pragma once
#include "warptape/core/types.h"

namespace wt {

struct ParseLimits {
  u64 max_bytes = u64{1} << 40;    // payload bytes that one open file may hand out in all
  u64 max_header = 100'000'000;    // bytes of header, checked before anything is allocated
  u64 max_items = u64{1} << 21;    // entries: tensors, records, members
  u64 max_string = u64{16} << 20;  // bytes of one string
  u32 max_depth = 16;              // nesting
};

}  // namespace wt
