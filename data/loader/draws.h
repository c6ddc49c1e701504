// Numbers drawn from a Philox block. Internal.
#pragma once
#include "warptape/core/philox.h"

namespace wt::data::detail {

// [0, n).
inline i64 draw_below(const PhiloxBlock& b, i64 n) {
  const u64 bits = u64(b.v[0]) << 32 | b.v[1];
  return i64(u64((unsigned __int128)bits * u64(n) >> 64));
}

}  // namespace wt::data::detail
