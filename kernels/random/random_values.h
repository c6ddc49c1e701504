// The numbers of kernels/random_fill.h, an element at a time, for host and device. Roundings are
// those of single steps: no product becomes part of a fused one.
#pragma once
#include <math.h>

#include "warptape/core/dtype.h"
#include "warptape/core/philox.h"
#include "warptape/kernels/common/normal_math.h"
#include "warptape/kernels/random/random_kind.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

// Probability that a normal number is below x. Host.
inline double normal_probability(double x) { return 0.5 * ::erfc(-x * 0.7071067811865476); }

// Truncated normal numbers are quantiles at first + width u, times scale.
struct TruncRange {
  double first, width, scale;
};
inline TruncRange trunc_range(double mean, double std, double low, double high) {
  const double a = (low - mean) / std, b = (high - mean) / std;
  // Where the interval lies right of the mean both probabilities would be near 1 and lose digits.
  const bool flip = a > 0;
  const double first = normal_probability(flip ? -b : a), last = normal_probability(flip ? -a : b);
  return {first, last - first, flip ? -std : std};
}

struct RandomValues {
  RandomKind kind;
  int shift = 0;    // uniform of words: the bits of one that are left out,
  double unit = 0;  // and what the others are in units of
  double mean, std, low, high, p;
  TruncRange trunc{};
  u64 least, width;

  template <class Args>  // RandomFillArgs
  explicit RandomValues(const Args& a)
      : kind(a.kind),
        mean(a.mean),
        std(a.std),
        low(a.low),
        high(a.high),
        p(a.p),
        least(u64(a.least)),
        width(u64(a.limit) - u64(a.least)) {
    const DType t = a.out.dtype();
    if (kind == RandomKind::uniform && t != DType::f64) {
      shift = t == DType::f32 ? 8 : t == DType::f16 ? 21 : 24;
      unit = 1.0 / double(1ll << (32 - shift));
    }
    if (kind == RandomKind::init_trunc_normal) trunc = trunc_range(mean, std, low, high);
  }

  // Elements a counter.
  WT_HD int each() const {
    if (kind >= RandomKind::init_uniform) return 1;
    return unit != 0 ? 4 : 2;
  }
  WT_HD bool whole() const { return kind == RandomKind::integers; }

  // Number k of a counter's. Selects, not v[k]: an array whose index is not known at compile time
  // lies in local memory on a GPU.
  WT_HD WT_HOT double number(const PhiloxBlock& b, int k) const {
    if (unit != 0) {
      const u32 word = k == 0 ? b.v[0] : k == 1 ? b.v[1] : k == 2 ? b.v[2] : b.v[3];
      return double(word >> shift) * unit;
    }
    const u64 first = u64(b.v[1]) << 32 | b.v[0], second = u64(b.v[3]) << 32 | b.v[2];
    if (kind == RandomKind::normal || kind == RandomKind::init_normal) {
      const normal_math::Point z = normal_math::normal_pair(normal_math::uniform53_of_pair(first),
                                                            normal_math::uniform53_of_pair(second));
      return mean + float_math::product(std, k == 0 ? z.cosine : z.sine);
    }
    const double u = normal_math::uniform53_of_pair(k == 0 ? first : second);
    if (kind == RandomKind::uniform) return u;
    if (kind == RandomKind::bernoulli) return u < p ? 1 : 0;
    if (kind == RandomKind::init_uniform) return low + float_math::product(high - low, u);
    const double at = trunc.first + float_math::product(trunc.width, u);
    const double x = mean + float_math::product(trunc.scale, normal_math::normal_quantile(at));
    const double above = x < low ? low : x;
    return above > high ? high : above;
  }
  // The same of integers.
  WT_HD WT_HOT i64 integer(const PhiloxBlock& b, int k) const {
    const u64 bits = k == 0 ? u64(b.v[0]) << 32 | b.v[1] : u64(b.v[2]) << 32 | b.v[3];
    return i64(least + u64((unsigned __int128)bits * width >> 64));
  }
};

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
