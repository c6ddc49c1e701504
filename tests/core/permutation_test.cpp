// Random orders that are computed: permute(key, place, n).
#include "warptape/core/permutation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "warptape/data/loader.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

std::vector<u64> order_of(PermutationKey key, u64 n, u64 places) {
  std::vector<u64> order;
  for (u64 i = 0; i < places; ++i) order.push_back(permute(key, i, n));
  return order;
}

// Of counts that should all be `want`, in standard deviations of the chi^2 distribution.
double excess(const std::vector<i64>& counts, double want) {
  double chi = 0;
  for (const i64 c : counts) chi += (double(c) - want) * (double(c) - want) / want;
  const double freedom = double(counts.size() - 1);
  return (chi - freedom) / std::sqrt(2 * freedom);
}

// Undoes one walk.
u64 feistel_back(PermutationKey key, u64 x, u32 half) {
  std::vector<PhiloxKey> keys{{key.lo, key.hi}};
  while (keys.size() < size_t(detail::kPermutationRounds)) keys.push_back(philox_next(keys.back()));
  const u32 mask = u32((u64{1} << half) - 1);
  u32 left = u32(x >> half) & mask, right = u32(x) & mask;
  for (size_t r = keys.size(); r-- > 0;) {
    const u32 before = (right ^ detail::permutation_mix(left, keys[r])) & mask;
    right = left;
    left = before;
  }
  return u64(left) << half | right;
}

u64 permute_back(PermutationKey key, u64 v, u64 n) {
  const u32 half = detail::permutation_half_bits(n);
  do v = feistel_back(key, v, half);
  while (v >= n);
  return v;
}

}  // namespace

TEST_CASE("permutation: known answers, of a second implementation", "[wall][random]") {
  // Integers of any length in Python, from the header's description.
  using Order = std::vector<u64>;
  CHECK(permutation_key(1, 0).lo == 913183990u);
  CHECK(permutation_key(1, 0).hi == 564950229u);
  CHECK(order_of(permutation_key(0, 0), 10, 8) == Order{1, 4, 8, 7, 0, 9, 3, 5});
  CHECK(order_of(permutation_key(1, 0), 10, 8) == Order{9, 6, 5, 2, 0, 7, 4, 1});
  CHECK(order_of(permutation_key(1, 1), 7, 7) == Order{4, 2, 1, 3, 6, 5, 0});
  CHECK(order_of(permutation_key(5, 2), 60000, 4) == Order{26857, 4770, 52789, 29000});
  CHECK(order_of(permutation_key(5, 2), (u64{1} << 33) + 5, 4) ==
        Order{7147900077, 1199754944, 6893169414, 7553141251});
  static_assert(permute(permutation_key(1, 0), 0, 10) == 9);
}

TEST_CASE("permutation: every number once, whatever n is") {
  std::vector<u64> sizes{1, 2, 3, 4, 5, 7, 9, 10, 60000, 50000, 100003};
  for (u64 bit = 3; bit <= 16; ++bit)
    for (const u64 n : {(u64{1} << bit) - 1, u64{1} << bit, (u64{1} << bit) + 1})
      sizes.push_back(n);
  for (const u64 n : sizes)
    for (const u64 seed : {0u, 1u}) {
      CAPTURE(n, seed);
      std::vector<u64> order = order_of(permutation_key(seed, 3), n, n), all(n);
      std::sort(order.begin(), order.end());
      std::iota(all.begin(), all.end(), u64{0});
      REQUIRE(order == all);
    }
}

TEST_CASE("permutation: large n, of which each number leads back to its place") {
  for (const u64 n :
       {(u64{1} << 33) - 1, u64{1} << 33, (u64{1} << 33) + 1, (u64{1} << 62) + 9, ~u64{0}}) {
    const PermutationKey key = permutation_key(n, 1);
    std::set<u64> seen;
    for (u64 k = 0; k < 3000; ++k) {
      const u64 i = k < 1500 ? k : n - 1 - k * (n / 6000), v = permute(key, i, n);
      CAPTURE(n, i, v);
      REQUIRE(v < n);
      REQUIRE(seen.insert(v).second);
      REQUIRE(permute_back(key, v, n) == i);
    }
  }
}

TEST_CASE("permutation: places, neighbours and the n! orders are equally frequent",
          "[wall][random]") {
  // Where each number goes, and which number follows which, over many epochs.
  for (const u64 n : {5u, 10u, 17u, 64u}) {
    constexpr i64 kEpochs = 20000;
    std::vector<i64> place(n * n), after(n * (n - 1));
    for (i64 epoch = 0; epoch < kEpochs; ++epoch) {
      const std::vector<u64> order = order_of(permutation_key(7, u64(epoch)), n, n);
      for (u64 i = 0; i < n; ++i) ++place[i * n + order[i]];
      for (u64 i = 0; i + 1 < n; ++i)
        ++after[order[i] * (n - 1) + order[i + 1] - (order[i + 1] > order[i])];
    }
    CAPTURE(n);
    CHECK(std::abs(excess(place, double(kEpochs) / double(n))) < 5);
    CHECK(std::abs(excess(after, double(kEpochs) / double(n))) < 5);
  }
  // 120 orders of 5 numbers, 24 of 4: the small ones are where a network of few bits would show.
  for (const u64 n : {4u, 5u}) {
    std::vector<i64> orders(3125);
    const i64 kinds = n == 4 ? 24 : 120;
    for (i64 epoch = 0; epoch < 400 * kinds; ++epoch) {
      size_t id = 0;
      for (const u64 v : order_of(permutation_key(3, u64(epoch)), n, n)) id = 5 * id + v;
      ++orders[id];
    }
    std::erase(orders, 0);  // what is no permutation
    REQUIRE(std::ssize(orders) == kinds);
    CHECK(std::abs(excess(orders, 400)) < 5);
  }
}

TEST_CASE("permutation: a large order has no steps, runs or parts that a shuffle has not") {
  constexpr i64 n = 60000;
  const std::vector<i64> order = data::epoch_order(n, true, 1, 0);
  // Differences of neighbours: 2 (n - d) pairs of (i, i +- d) of n^2; in 20 parts of equal chance.
  std::vector<i64> parts(20), quarters(400);
  for (i64 i = 0; i + 1 < n; ++i) {
    const double d = double(std::abs(order[size_t(i)] - order[size_t(i + 1)])) / double(n);
    ++parts[std::min<size_t>(19, size_t(20 * (1 - (1 - d) * (1 - d))))];
    ++quarters[size_t(20 * i / n * 20 + 20 * order[size_t(i)] / n)];
  }
  CHECK(std::abs(excess(parts, double(n) / 20)) < 5);
  CHECK(std::abs(excess(quarters, double(n) / 400)) < 5);
  i64 fixed = 0;
  for (i64 i = 0; i < n; ++i) fixed += order[size_t(i)] == i;
  CHECK(fixed < 8);  // 1 is expected
}

TEST_CASE("permutation: an epoch's order in a Loader is the one that kernels compute") {
  for (const i64 n : {0, 1, 2, 100}) {
    const std::vector<i64> order = data::epoch_order(n, true, 9, 4);
    REQUIRE(i64(order.size()) == n);
    for (i64 i = 0; i < n; ++i)
      CHECK(order[size_t(i)] == i64(permute(permutation_key(9, 4), u64(i), u64(n))));
  }
}
