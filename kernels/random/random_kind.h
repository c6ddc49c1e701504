// What random numbers may be; kernels/random/random_values.h makes them. No STL: device code
// includes this.
#pragma once
#include "warptape/core/types.h"

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

}  // namespace wt
