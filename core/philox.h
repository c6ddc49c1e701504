// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a counter
// based generator, the same numbers on all devices. No STL: kernels include this.
//
// key = mix64(seed, stream, fork); counter = (element / 4, call index): a draw depends on the
// logical element and the call, not on grid, vector width or strides.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

enum class RandomStream : u32 { init = 1, dropout = 2, shuffle = 3, augment = 4, user = 5 };

struct PhiloxKey {
  u32 lo, hi;
};
struct PhiloxBlock {
  u32 v[4];
};

// Stafford's variant 13 of the splitmix64 finaliser.
WT_HD constexpr u64 mix64(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
WT_HD constexpr PhiloxKey philox_key(u64 seed, RandomStream stream, u64 fork = 0) {
  const u64 k = mix64(mix64(mix64(seed + 0x9e3779b97f4a7c15ull) ^ u64(stream)) + fork);
  return {u32(k), u32(k >> 32)};
}

// One of the ten rounds, and the key of the next one.
WT_HD constexpr void philox_round(u32& c0, u32& c1, u32& c2, u32& c3, PhiloxKey k) {
  const u64 p0 = u64(0xD2511F53u) * c0, p1 = u64(0xCD9E8D57u) * c2;
  c0 = u32(p1 >> 32) ^ c1 ^ k.lo;
  c1 = u32(p1);
  c2 = u32(p0 >> 32) ^ c3 ^ k.hi;
  c3 = u32(p0);
}
WT_HD constexpr PhiloxKey philox_next(PhiloxKey k) {
  return {k.lo + 0x9E3779B9u, k.hi + 0xBB67AE85u};
}
WT_HD constexpr PhiloxBlock philox(PhiloxKey key, u64 block, u64 call) {
  u32 c0 = u32(block), c1 = u32(block >> 32), c2 = u32(call), c3 = u32(call >> 32);
  for (int round = 0; round < 10; ++round) {
    philox_round(c0, c1, c2, c3, key);
    key = philox_next(key);
  }
  return {{c0, c1, c2, c3}};
}

// [0, 1) with 24 bits: exact in float.
WT_HD constexpr float uniform24(u32 bits) { return float(bits >> 8) * 5.9604644775390625e-08f; }
// [0, 1) with 53 bits.
WT_HD constexpr double uniform53(u32 hi, u32 lo) {
  return double((u64(hi) << 32 | lo) >> 11) * 1.1102230246251565e-16;
}

}  // namespace wt
