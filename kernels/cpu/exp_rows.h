// Runs of floats and their exponentials, for softmax, cross-entropy and logsumexp: in the widest
// vectors that the processor has, which for exponentials are worth a fifth of the time.
#pragma once
#include <cmath>

#include "warptape/core/types.h"

namespace wt {

constexpr i64 kRunOfExps = 2048;  // elements that stay in the first level cache

// What comes `ahead` elements later is fetched meanwhile; any address will do.
struct ExpRows {
  // The largest of n, -inf if there is none. NaN is ignored.
  float (*largest)(const float* x, i64 n);
  // The sum of e^(x - shift), x <= shift unless it is NaN; kept: they also go to `to`; shares: x ==
  // shift adds 1 where both are infinite, too.
  float (*sum)(float*, const float* x, i64 n, float shift, i64 ahead);
  float (*kept)(float* to, const float* x, i64 n, float shift, i64 ahead);
  float (*shares)(float*, const float* x, i64 n, float shift, i64 ahead);
  // gx = grad * (e^(x - shift - logarithm) - base)
  void (*gradient)(float* gx, const float* x, i64 n, float shift, float logarithm, float base,
                   float grad, i64 ahead);
  // y = scale * e; `streams`: past the caches, end_stream() comes after.
  void (*scale)(float* y, const float* e, i64 n, float scale, bool streams);
  // Of every column the largest element so far and the sum of shares, over `rows` more rows.
  void (*columns)(float* largest, float* sum, const float* p, i64 rows, i64 step, i64 columns);
};
const ExpRows& exp_rows();

// A row's largest element so far and the sum of e^(x - largest). While all is -inf, of e^x.
struct RunningExps {
  const ExpRows& with;
  float largest = -INFINITY, sum = 0;

  // What turns e^(x - from) into e^(x - to), to >= from; 0 from -inf, which may have stood for 0.
  static float factor(float from, float to) {
    return from == to ? 1 : from == -INFINITY ? 0 : std::exp(from - to);
  }
  // A run of m <= kRunOfExps elements of a row of n, behind which another row comes. Exponentials
  // go to `to` unless that is null.
  void take(float* to, const float* x, i64 m, i64 n) {
    const float here = with.largest(x, m), now = here > largest ? here : largest;
    const float shift = now == -INFINITY ? 0 : now;
    const float part =
        (to ? with.kept : with.sum)(to, x, m, shift, n < kRunOfExps ? n : kRunOfExps);
    sum = sum * factor(largest, now) + part;
    largest = now;
  }
};

}  // namespace wt
