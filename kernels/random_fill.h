// Memory filled with random numbers of one call of the generator. Element i depends on key, call
// and i alone, not on how many elements, threads or lanes there are, and has the same bits on every
// device.
#pragma once
#include "warptape/core/philox.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/random/random_kind.h"

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

}  // namespace wt
