// A random order of [0, n) that is computed and not stored: place i's number from (key, i, n)
// alone, the same on all devices. A kernel that is given the place of a batch in its epoch needs
// no list of indices. No STL: kernels include this.
//
// A balanced Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations",
// SIAM J. Comput. 17(2), 1988) permutes the least 4^h >= n numbers, at least 64; one that is not
// below n is permuted again until it is (cycle walking: Black and Rogaway, "Ciphers with arbitrary
// finite domains", CT-RSA 2002). From n = 16 on that takes less than 4 walks on average. For
// shuffles on GPUs: Mitchell, Stokes, Frank and Holmes, "Bandwidth-optimal random shuffling for
// GPUs", ACM TOPC 9(1), 2022.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/philox.h"
#include "warptape/core/types.h"

namespace wt {

struct PermutationKey {
  u32 lo, hi;
};

// The order of an epoch. `stream` is philox_key(seed, RandomStream::shuffle) or another.
WT_HD constexpr PermutationKey permutation_key(PhiloxKey stream, u64 epoch) {
  const PhiloxBlock b = philox(stream, 0, epoch);
  return {b.v[0], b.v[1]};
}
WT_HD constexpr PermutationKey permutation_key(u64 seed, u64 epoch) {
  return permutation_key(philox_key(seed, RandomStream::shuffle), epoch);
}

namespace detail {

// More rounds than the four of the proof: halves of few bits mix slowly.
inline constexpr int kPermutationRounds = 8;

// h of the least 4^h >= n. At least 3: of the orders of 4 to 6 numbers, halves of 2 bits make some
// far more often than others, however many rounds there are.
WT_HD constexpr u32 permutation_half_bits(u64 n) {
  u32 half = 3;
  while (half < 32 && (n - 1) >> (2 * half)) ++half;
  return half;
}

// The multipliers of lowbias32 (Wellons, "Prospecting for hash functions", nullprogram.com, 2018),
// each word of the key before one of them.
WT_HD constexpr u32 permutation_mix(u32 x, PhiloxKey k) {
  x ^= k.lo;
  x = (x ^ (x >> 16)) * 0x21f0aaadu;
  x += k.hi;
  x = (x ^ (x >> 15)) * 0xd35a2d97u;
  return x ^ (x >> 15);
}

// A bijection of the numbers of 2 * half bits.
WT_HD constexpr u64 feistel(PermutationKey key, u64 x, u32 half) {
  const u32 mask = u32((u64{1} << half) - 1);
  u32 left = u32(x >> half) & mask, right = u32(x) & mask;
  PhiloxKey k{key.lo, key.hi};
  for (int round = 0; round < kPermutationRounds; ++round) {
    const u32 mixed = (left ^ permutation_mix(right, k)) & mask;
    left = right;
    right = mixed;
    k = philox_next(k);
  }
  return u64(left) << half | right;
}

}  // namespace detail

// What place i of [0, n) holds: for one key and n a bijection of [0, n). i < n.
WT_HD constexpr u64 permute(PermutationKey key, u64 i, u64 n) {
  const u32 half = detail::permutation_half_bits(n);
  do i = detail::feistel(key, i, half);
  while (i >= n);
  return i;
}

}  // namespace wt
