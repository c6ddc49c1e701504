// Numbers drawn from a Philox block. Internal.
#pragma once
#include "warptape/core/philox.h"

namespace wt::data::detail {

// What draws from a loader's seed (RandomStream::shuffle), a fork each, so that none follows
// another: the order of epochs has fork 0 (core/permutation.h).
enum class ShuffleFork : u64 { weights = 1, windows, records, replacement };
inline PhiloxKey shuffle_key(u64 seed, ShuffleFork fork) {
  return philox_key(seed, RandomStream::shuffle, u64(fork));
}

// [0, n).
inline i64 draw_below(const PhiloxBlock& b, i64 n) {
  const u64 bits = u64(b.v[0]) << 32 | b.v[1];
  return i64(u64((unsigned __int128)bits * u64(n) >> 64));
}

}  // namespace wt::data::detail
