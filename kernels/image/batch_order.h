// Which rows of a dataset a batch has. No STL: kernels include this.
#pragma once
#include "warptape/core/permutation.h"

namespace wt {

// Sample i of the batch is row
//   list[i]                                      where there is a list
//   place + i                                    in order
//   permute(key(seed, epoch), place + i, rows)   shuffled (core/permutation.h)
// With `cursor`, epoch and place are cursor[0] and cursor[1] in memory of the device: a captured
// launch gives another batch at each replay. Listed rows outside [0, rows) are the caller's fault;
// places beyond the epoch begin it anew.
struct BatchOrder {
  const i64* list = nullptr;
  const i64* cursor = nullptr;
  i64 rows = 0;
  bool shuffle = false;
  u64 seed = 0;
  i64 epoch = 0, place = 0;

  WT_HD i64 epoch_now() const { return cursor ? cursor[0] : epoch; }
  WT_HD i64 row(i64 sample) const { return row(sample, epoch_now()); }
  // The same, where the epoch has been read already.
  WT_HD i64 row(i64 sample, i64 epoch_now) const {
    if (list) return list[sample];
    u64 at = u64((cursor ? cursor[1] : place) + sample);
    // A cursor that somebody wrote to must not send permute() round for ever.
    if (at >= u64(rows)) at %= u64(rows);
    return i64(shuffle ? permute(permutation_key(seed, u64(epoch_now)), at, u64(rows)) : at);
  }
};

// Place j of a subset of a row's points, without replacement, another one each epoch.
WT_HD constexpr i64 subset_point(u64 seed, i64 epoch, i64 row, i64 j, i64 points) {
  const PhiloxKey stream = philox_key(seed, RandomStream::augment, u64(row));
  return i64(permute(permutation_key(stream, u64(epoch)), u64(j), u64(points)));
}

}  // namespace wt
