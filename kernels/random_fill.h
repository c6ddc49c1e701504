// Memory filled with random numbers of one call of the generator. Element i depends on key, call
// and i alone, not on how many elements, threads or lanes there are, and has the same bits on every
// device.
#pragma once
#include "warptape/core/philox.h"
#include "warptape/kernels/common/random_kind.h"
#include "warptape/kernels/contract.h"

namespace wt {

struct RandomFillArgs {
  View out{};  // contiguous
  RandomKind kind = RandomKind::uniform;
  PhiloxKey key{};
  u64 call = 0;
  double mean = 0, std = 1;
  double low = 0, high = 1;
  double p = 0;
  i64 least = 0, limit = 1;
  i64 bytes() const { return out.bytes(); }
  i64 flops() const { return out.numel(); }
};
WT_CONTRACT(random_fill, RandomFillArgs);

// 0, 1, ..., n - 1 shuffled (Fisher and Yates), one counter a step, on one thread of the host: each
// step exchanges what the steps before have left. Dtypes as those of integers.
void fill_permutation(void* out, DType t, i64 n, PhiloxKey key, u64 call);

}  // namespace wt
