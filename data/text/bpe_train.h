// Which pairs byte-pair encoding merges. Internal.
#pragma once
#include <string_view>
#include <vector>

#include "warptape/core/types.h"

namespace wt::data::detail {

struct Pair {
  i64 left, right;
};
// Ids are below 2^32.
constexpr u64 pair_key(i64 left, i64 right) { return u64(left) << 32 | u64(right); }

// At most `merges` of them, none rarer than `min_count`; the k-th makes the id 256 + k. Time
// O(n log n) for text of n bytes beside a hash of its pieces, memory 40 bytes a byte of different
// pieces. Throws UsageError for 2^31 bytes of these.
std::vector<Pair> train_merges(std::string_view text, i64 merges, i64 min_count);

}  // namespace wt::data::detail
