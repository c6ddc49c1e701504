#include "warptape/kernels/random/random_fill_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "warptape/core/numbers/narrow.h"
#include "warptape/kernels/common/normal_math.h"
#include "warptape/kernels/cpu/half_rows.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/cpu/pieces.h"
#include "warptape/kernels/random/philox_words_cpu.h"
#include "warptape/kernels/random/random_values.h"

namespace wt {
namespace {

using normal_math::Point;
using normal_math::uniform53_of_pair;

struct RandomFill {
  void* out;
  DType dtype;
  i64 n;
  PhiloxKey key;
  u64 call;
};

// Elements at a time: loops of a fixed length become vector code. in_pieces() cuts at multiples.
constexpr int kBatch = 64;

// --- distributions ---
// values(out, words): kBatch elements from kWords words each, those of their counters in order.

WT_HOT u64 pair(const u32* words) {
  u64 both = 0;
  std::memcpy(&both, words, sizeof both);
  return both;
}

struct UniformOfWord {
  using Value = double;
  static constexpr int kWords = 1;
  int shift;
  double unit;
  WT_HOT void values(double* out, const u32* words) const {
    for (int i = 0; i < kBatch; ++i) out[i] = double(i32(words[i] >> shift)) * unit;
  }
};

template <int WordsEach>
struct UniformOfPair {
  using Value = double;
  static constexpr int kWords = WordsEach;
  double low, width;
  WT_HOT void values(double* out, const u32* words) const {
    for (int i = 0; i < kBatch; ++i)
      out[i] = low + width * uniform53_of_pair(pair(words + i * kWords));
  }
};

WT_HOT Point normals(const u32* counter) {
  return normal_math::normal_pair(uniform53_of_pair(pair(counter)),
                                  uniform53_of_pair(pair(counter + 2)));
}
struct Normal {
  using Value = double;
  static constexpr int kWords = 2;
  double mean, std;
  WT_HOT void values(double* out, const u32* words) const {
    for (int i = 0; i < kBatch / 2; ++i) {
      const Point p = normals(words + 4 * i);
      out[2 * i] = mean + std * p.cosine;
      out[2 * i + 1] = mean + std * p.sine;
    }
  }
};
struct OneNormal {
  using Value = double;
  static constexpr int kWords = 4;
  double mean, std;
  WT_HOT void values(double* out, const u32* words) const {
    for (int i = 0; i < kBatch; ++i) out[i] = mean + std * normals(words + 4 * i).cosine;
  }
};
// Quantiles at first + width u, times scale.
struct TruncNormal {
  using Value = double;
  static constexpr int kWords = 4;
  double first, width, mean, scale, low, high;
  WT_HOT void values(double* out, const u32* words) const {
    for (int i = 0; i < kBatch; ++i) {
      const double u = uniform53_of_pair(pair(words + 4 * i));
      const double x = mean + scale * normal_math::normal_quantile(first + width * u);
      const double above = x < low ? low : x;
      out[i] = above > high ? high : above;
    }
  }
};

struct Integers {
  using Value = i64;
  static constexpr int kWords = 2;
  u64 low, width;
  WT_HOT static u64 below(u64 width, const u32* words) {
    const u64 bits = u64(words[0]) << 32 | words[1];
    return u64((unsigned __int128)bits * width >> 64);
  }
  WT_HOT void values(i64* out, const u32* words) const {
    for (int i = 0; i < kBatch; ++i) out[i] = i64(low + below(width, words + 2 * i));
  }
};
struct Bernoulli {
  using Value = i32;
  static constexpr int kWords = 2;
  double p;
  WT_HOT void values(i32* out, const u32* words) const {
    for (int i = 0; i < kBatch; ++i) out[i] = uniform53_of_pair(pair(words + 2 * i)) < p ? 1 : 0;
  }
};

// --- dtypes ---
// Not those of common/dtypes.h: these are inlined, so that what they call has the caller's
// instruction set, and they know the integers that are only stored.
template <class S>
constexpr bool kHalf = std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>;

template <class S, class V>
WT_HOT S stored(V v) {
  if constexpr (kHalf<S>)
    return S(detail::before_narrowing(v));
  else
    return S(v);
}

template <class F>
WT_HOT void dispatch_floats(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f16:
      return f.template operator()<Half>();
    default:
      return f.template operator()<BFloat16>();
  }
}
template <class F>
WT_HOT void dispatch_all(DType t, F&& f) {
  switch (t) {
    case DType::i64:
    case DType::u64:
      return f.template operator()<i64>();
    case DType::i32:
    case DType::u32:
      return f.template operator()<i32>();
    case DType::i16:
    case DType::u16:
      return f.template operator()<i16>();
    case DType::i8:
    case DType::u8:
      return f.template operator()<i8>();
    case DType::boolean:
      return f.template operator()<bool>();
    default:
      return dispatch_floats(t, std::forward<F>(f));
  }
}

// The first n of a batch, as elements `at`, at + 1, ...
template <class S, class V>
WT_HOT void store(void* to, i64 at, const V* values, i64 n) {
  S out[kBatch];
  if constexpr (kHalf<S>) {
    float row[kBatch];
    for (int i = 0; i < kBatch; ++i) row[i] = detail::before_narrowing(values[i]);
    detail::convert_row(out, row, kBatch);
  } else {
    for (int i = 0; i < kBatch; ++i) out[i] = stored<S>(values[i]);
  }
  std::memcpy(static_cast<S*>(to) + at, out, size_t(n) * sizeof(S));
}

// --- filling ---
template <class D>
WT_HOT void fill_piece(const RandomFill& f, const D& d, const PhiloxWords& source, i64 from,
                       i64 to) {
  static_assert(kBatch == PhiloxWords::kWords);
  alignas(64) u32 words[D::kWords * kBatch];
  alignas(64) typename D::Value values[kBatch];
  for (i64 i = from; i < to; i += kBatch) {
    for (int k = 0; k < D::kWords; ++k)
      source.draw(words + k * kBatch, u64(i / kBatch * D::kWords + k) * PhiloxWords::kCounters);
    d.values(values, words);
    const auto put = [&]<class S>() WT_INLINE_LAMBDA {
      store<S>(f.out, i, values, std::min<i64>(kBatch, to - i));
    };
    if constexpr (std::is_same_v<typename D::Value, double>)
      dispatch_floats(f.dtype, put);
    else
      dispatch_all(f.dtype, put);
  }
}

template <class D>
void piece_plain(const RandomFill& f, const D& d, const PhiloxWords& w, i64 from, i64 to) {
  fill_piece(f, d, w, from, to);
}
template <class D>
WT_TARGET_AVX2 void piece_avx2(const RandomFill& f, const D& d, const PhiloxWords& w, i64 from,
                               i64 to) {
  fill_piece(f, d, w, from, to);
}
template <class D>
WT_TARGET_AVX512_WIDE void piece_avx512(const RandomFill& f, const D& d, const PhiloxWords& w,
                                        i64 from, i64 to) {
  fill_piece(f, d, w, from, to);
}

template <class D>
void fill(const RandomFill& f, const D& d) {
  constexpr decltype(&piece_plain<D>) kPieces[] = {piece_plain<D>, piece_avx2<D>, piece_avx512<D>};
  const auto piece = kPieces[cpu_isa()];
  const PhiloxWords words(f.key, f.call);
  in_pieces(f.n, [&](i64 from, i64 to) { piece(f, d, words, from, to); });
}

void fill_uniform(const RandomFill& f) {
  if (f.dtype == DType::f64) return fill(f, UniformOfPair<2>{0, 1});
  const int bits = f.dtype == DType::f32 ? 24 : f.dtype == DType::f16 ? 11 : 8;
  fill(f, UniformOfWord{32 - bits, std::ldexp(1.0, -bits)});
}

}  // namespace

void random_fill_vector(const RandomFillArgs& a, const Launch&) {
  const RandomFill f{a.out.data, a.out.dtype(), a.out.numel(), a.key, a.call};
  switch (a.kind) {
    case RandomKind::uniform:
      return fill_uniform(f);
    case RandomKind::normal:
      return fill(f, Normal{a.mean, a.std});
    case RandomKind::integers:
      return fill(f, Integers{u64(a.least), u64(a.limit) - u64(a.least)});
    case RandomKind::bernoulli:
      return fill(f, Bernoulli{a.p});
    case RandomKind::init_uniform:
      return fill(f, UniformOfPair<4>{a.low, a.high - a.low});
    case RandomKind::init_normal:
      return fill(f, OneNormal{a.mean, a.std});
    case RandomKind::init_trunc_normal:
      const TruncRange r = trunc_range(a.mean, a.std, a.low, a.high);
      return fill(f, TruncNormal{r.first, r.width, a.mean, r.scale, a.low, a.high});
  }
}

}  // namespace wt
