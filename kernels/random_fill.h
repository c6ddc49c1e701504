// Memory filled with random numbers of one call of the generator. Element i depends on key, call
// and i alone, not on how many elements, threads or lanes there are, and has the same bits on every
// device.
#pragma once
#include "warptape/core/philox.h"
#include "warptape/kernels/contract.h"

namespace wt {

enum class RandomKind : u8 {
  // --- what factories draw ---
  // [0, 1), f64, f32, f16 or bf16, in as many bits as the dtype holds exactly, so that rounding
  // never gives 1: 53 of a pair of words (counter i / 2), else 24, 11 or 8 of word i % 4 of counter
  // i / 4.
  uniform,
  // mean + std z, rounded once; z is point i % 2 of normal_pair (kernels/common/normal_math.h) of
  // the two pairs of counter i / 2. Floating dtypes.
  normal,
  // In [least, limit), least < limit: 64 bits of counter i / 2 times the width, of which the upper
  // half. Any dtype but the 8-bit floats; what it cannot hold is cut as C++ does.
  integers,
  // 1 with probability p, else 0: where uniform's f64 would be below p. Dtypes as before.
  bernoulli,
  // --- what initialisers draw ---
  // Floating dtypes; element i has counter i for itself.
  init_uniform,  // [low, high)
  init_normal,
  // N(mean, std^2) within [low, high], low < high and std > 0, by inversion.
  init_trunc_normal,
};

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
