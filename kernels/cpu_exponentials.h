// Maxima of runs of floats and the sums of their exponentials, for the `avx2` variants of softmax,
// cross-entropy and logsumexp. Runs of about kRunOfExps are read from memory once: by the maximum.
#pragma once
#include "warptape/kernels/cpu_vector.h"

namespace wt {

#if WT_X86
constexpr i64 kRunOfExps = 2048;  // elements that stay in the first level cache

// The largest of n, -inf if there is none. NaN is ignored.
WT_TARGET_AVX2 inline float largest_of(const float* x, i64 n) {
  f32x8 m[4] = {splat8(-INFINITY), splat8(-INFINITY), splat8(-INFINITY), splat8(-INFINITY)};
  i64 i = 0;
  for (; i + 32 <= n; i += 32)
    for (int k = 0; k < 4; ++k) m[k] = max8(m[k], load8(x + i + 8 * k));
  for (; i + 8 <= n; i += 8) m[0] = max8(m[0], load8(x + i));
  m[1] = max8(m[1], load_part8(x + i, n - i, -INFINITY));
  return max_of8(max8(max8(m[0], m[1]), max8(m[2], m[3])));
}

enum class Exps {
  summed,
  kept,    // they also go to `to`
  shares,  // summed; x == shift adds 1, where shift is infinite too
};
// The sum of e^(x - shift). What comes `ahead` elements later is fetched meanwhile.
template <Exps E>
WT_TARGET_AVX2 inline float exponentials(float* to, const float* x, i64 n, float shift, i64 ahead) {
  const auto e_of = [shift](f32x8 v) WT_TARGET_AVX2 __attribute__((always_inline)) {
    const f32x8 e = exp8(v - shift);
    return E == Exps::shares ? (v == shift ? splat8(1) : e) : e;
  };
  f32x8 sums = splat8(0), more = sums;
  i64 i = 0;
  for (; i + 16 <= n; i += 16) {
    expect8(x + i + ahead);
    const f32x8 e = e_of(load8(x + i)), f = e_of(load8(x + i + 8));
    sums += e;
    more += f;
    if constexpr (E == Exps::kept) {
      store8(to + i, e);
      store8(to + i + 8, f);
    }
  }
  for (; i < n; i += 8) {
    const i64 left = n - i < 8 ? n - i : 8;
    const f32x8 e = e_of(load_part8(x + i, left, -INFINITY));
    sums += e;
    if constexpr (E == Exps::kept) store_part8(to + i, e, left);
  }
  return sum_of8(sums + more);
}

// A row's largest element so far and the sum of e^(x - largest). While all is -inf, of e^x.
struct RunningExps {
  float largest = -INFINITY, sum = 0;

  // What turns e^(x - from) into e^(x - to), to >= from; 0 from -inf, which may have stood for 0.
  static float factor(float from, float to) { return from == to ? 1 : std::exp(from - to); }
  // A run of m <= kRunOfExps elements of a row of n, behind which another row comes.
  template <Exps E>
  void take(float* to, const float* x, i64 m, i64 n) {
    const float here = largest_of(x, m), now = here > largest ? here : largest;
    const float shift = now == -INFINITY ? 0 : now;
    const float part = exponentials<E>(to, x, m, shift, n < kRunOfExps ? n : kRunOfExps);
    sum = sum * factor(largest, now) + part;
    largest = now;
  }
};
#endif

}  // namespace wt
