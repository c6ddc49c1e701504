// Host memory filled with random numbers of one call of the generator. Element i depends on key,
// call and i alone, not on how many elements, threads or lanes there are.
#pragma once
#include "warptape/core/dtype.h"
#include "warptape/core/philox.h"

namespace wt {

struct RandomFill {
  void* out;
  DType dtype;
  i64 n;
  PhiloxKey key;
  u64 call;
};

// --- what factories draw ---
// [0, 1), f64, f32, f16 or bf16, in as many bits as the dtype holds exactly, so that rounding never
// gives 1: 53 of a pair of words (counter i / 2), else 24, 11 or 8 of word i % 4 of counter i / 4.
void fill_uniform(const RandomFill& f);
// mean + std z, rounded once; z is point i % 2 of normal_pair (kernels/common/normal_math.h) of the
// two pairs of counter i / 2. Floating dtypes.
void fill_normal(const RandomFill& f, double mean, double std);
// In [low, high), low < high: 64 bits of counter i / 2 times the width, of which the upper half.
// Any dtype but the 8-bit floats; what it cannot hold is cut as C++ does.
void fill_integers(const RandomFill& f, i64 low, i64 high);
// 1 with probability p, else 0: where fill_uniform's f64 would be below p. Dtypes as before.
void fill_bernoulli(const RandomFill& f, double p);
// 0, 1, ..., n - 1 shuffled (Fisher and Yates), one counter a step, on one thread. Dtypes as
// before.
void fill_permutation(const RandomFill& f);

// --- what initialisers draw ---
// Floating dtypes; element i has counter i for itself.
void init_uniform(const RandomFill& f, double low, double high);
void init_normal(const RandomFill& f, double mean, double std);
// N(mean, std^2) within [low, high], low < high and std > 0, by inversion.
void init_trunc_normal(const RandomFill& f, double mean, double std, double low, double high);

}  // namespace wt
