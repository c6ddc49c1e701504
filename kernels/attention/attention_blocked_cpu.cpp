// Attention of f32 and f64 on the cpu in blocks of queries and keys (Dao et al. 2022,
// arXiv:2205.14135): the products go through the tiles of the packed matrix product, the
// exponentials a vector at a time. A block of scores stays in the cache; nothing grows with the
// number of pairs.
#include <algorithm>
#include <cstring>

#include "warptape/core/device.h"
#include "warptape/kernels/attention/attention_cpu.h"
#include "warptape/kernels/cpu/packed_tile.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt::attention {

#if WT_X86
namespace {

constexpr i64 kQueries = 64, kKeys = 128;  // of a block; kKeys is also the row of its scores
constexpr i64 kFewQueries = 32;            // of a block of a short causal head
constexpr i64 kBlock = kQueries * kKeys;   // elements
constexpr double kWorkAThread = 1 << 16;   // multiplications; waking a helper costs some 3 us

// Rows that a matrix product takes as they lie.
bool has_rows(const View& v) {
  return (v.stride(3) == 1 || v.size(3) <= 1) && (v.stride(2) >= v.size(3) || v.size(2) <= 1);
}
const char* why_not(const AttentionScores& s, const View& v) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  if (s.q.dtype() != DType::f32 && s.q.dtype() != DType::f64) return "f32 and f64 only";
  if (!has_rows(s.q) || !has_rows(s.k) || !has_rows(v))
    return "the elements of a query, key or value must be neighbours";
  return nullptr;
}
template <class Args>
int threads_for(const Args& a) {
  return int(std::min(double(num_threads()), double(a.flops()) / kWorkAThread + 1));
}

// out[m, n] (+)= a[m, k] b[k, n]
template <class T>
struct Product {
  T* out;
  i64 out_row;
  const T* a;
  i64 a_row, a_column;
  const T* b;
  i64 b_row, b_column;
  i64 m, n, k;
  bool add;
};
// Rows of b are read where they lie if they make whole panels, else from a copy on the stack.
template <class T>
void multiply(const Product<T>& g) {
  constexpr i64 kDepth = 128;
  const PackedKernels<T>& k = matmul_packed_kernels<T>();
  alignas(64) T copy[kDepth * 128 / sizeof(T)];  // a panel is two vectors wide
  const i64 tiles = (g.m + k.rows - 1) / k.rows;
  for (i64 p = 0; p < g.k; p += kDepth)
    for (i64 j = 0; j < g.n; j += k.width) {
      PackedTile<T> tile{};
      tile.a_row = g.a_row, tile.a_column = g.a_column;
      tile.depth = std::min(kDepth, g.k - p);
      tile.columns = int(std::min<i64>(k.width, g.n - j));
      const T* const b = g.b + p * g.b_row + j * g.b_column;
      const bool in_place = g.b_column == 1 && tile.columns == k.width;
      if (!in_place) k.pack(copy, b, g.b_row, g.b_column, tile.depth, tile.columns);
      tile.panel = in_place ? b : copy;
      tile.panel_row = in_place ? g.b_row : k.width;
      tile.out_row = g.out_row, tile.out_column = 1;
      tile.add = g.add || p > 0;
      const auto* const by_rows = 2 * tile.columns > k.width ? k.wide : k.narrow;
      for (i64 t = 0; t < tiles; ++t) {
        const i64 from = g.m * t / tiles, to = g.m * (t + 1) / tiles;
        tile.a = g.a + from * g.a_row + p * g.a_column;
        tile.out = g.out + from * g.out_row + j;
        by_rows[to - from](tile);
      }
    }
  for (i64 i = 0; i < g.m && g.k == 0 && !g.add; ++i) std::fill_n(g.out + i * g.out_row, g.n, T(0));
}

// Is an element of the rows infinite or NaN? Then 0 times it is not 0, and pairs that must not be
// seen have to be left out of a sum.
template <class T>
WT_TARGET_AVX2 bool has_odd(const T* rows, i64 step, i64 m, i64 n) {
  using Bits = std::conditional_t<sizeof(T) == 4, u32, u64>;
  constexpr Bits kExponent = sizeof(T) == 4 ? Bits(0x7f800000) : Bits(0x7ff0000000000000);
  Bits odd = 0;
  for (i64 r = 0; r < m; ++r)
    for (i64 c = 0; c < n; ++c) {
      Bits bits;
      std::memcpy(&bits, rows + r * step + c, sizeof bits);
      odd |= Bits((bits & kExponent) == kExponent);
    }
  return odd != 0;
}
// out[m, n] += a[m, k] b[k, n] without the products by a 0 in a.
template <class T>
void add_without_zeros(const Product<T>& g) {
  for (i64 i = 0; i < g.m; ++i) {
    T* const out = g.out + i * g.out_row;
    if (!g.add) std::fill_n(out, g.n, T(0));
    for (i64 p = 0; p < g.k; ++p) {
      const T factor = g.a[i * g.a_row + p * g.a_column];
      for (i64 j = 0; j < g.n && factor != 0; ++j) out[j] += factor * g.b[p * g.b_row + j];
    }
  }
}

// Rows of a head, from row `first` on.
template <class T>
const T* rows_of(const View& v, i64 b, i64 h, i64 first) {
  return v.as<const T>() + at(v, b, h) + first * v.stride(2);
}
// out[m, n] = a[m, k] (b[n, k])^T
template <class T>
void times_transposed(T* out, const T* a, i64 a_row, const T* b, i64 b_row, i64 m, i64 n, i64 k) {
  multiply<T>({out, kKeys, a, a_row, 1, b, 1, b_row, m, n, k, false});
}
// A block of scores, of which the masked ones are 0, times rows of b.
template <class T>
void times_rows_of(const Product<T>& g, bool masked) {
  if (masked && has_odd(g.b, g.b_row, g.k, g.n))
    add_without_zeros(g);
  else
    multiply(g);
}
// out[m, n] (+)= a[m, k] b[k, n], a a block of scores
template <class T>
void times_rows(T* out, i64 out_row, const T* a, const T* b, i64 b_row, i64 m, i64 n, i64 k,
                bool add, bool masked) {
  times_rows_of<T>({out, out_row, a, kKeys, 1, b, b_row, 1, m, n, k, add}, masked);
}
// out[m, n] += (a[k, m])^T b[k, n], a a block of scores
template <class T>
void transposed_times(T* out, i64 out_row, const T* a, const T* b, i64 b_row, i64 m, i64 n, i64 k,
                      bool masked) {
  times_rows_of<T>({out, out_row, a, 1, kKeys, b, b_row, 1, m, n, k, true}, masked);
}

// The pairs of a block.
struct Pairs {
  Head head;
  i64 i, j;           // the first query and key
  i64 queries, keys;  // how many
};

// Is there a pair that must not be seen?
bool has_masked(const AttentionScores& s, const Pairs& at) {
  return s.mask || s.threshold || (s.causal && at.j + at.keys - 1 > at.i);
}

// Queries of a block: where a block of keys holds all, a smaller one skips more of what `causal`
// hides.
i64 queries_of(const AttentionScores& s) {
  return s.causal && s.k.size(2) <= kKeys ? kFewQueries : kQueries;
}

template <class T>
WT_TARGET_AVX2 void scale_row(T* row, i64 n, T scale) {
  for (i64 c = 0; c < n; ++c) row[c] *= scale;
}
// Products of queries and keys to scores; what must not be seen becomes -inf.
template <class T>
void finish_scores(const AttentionScores& s, const Pairs& at, T* scores) {
  for (i64 r = 0; r < at.queries; ++r) {
    T* row = scores + r * kKeys;
    const i64 seen = s.causal ? std::clamp<i64>(at.i + r - at.j + 1, 0, at.keys) : at.keys;
    scale_row(row, seen, T(s.scale));
    std::fill(row + seen, row + at.keys, -T(INFINITY));
    if (!s.mask) continue;
    for (i64 c = 0; c < seen; ++c)
      row[c] = masked_score<T, T>(s, at.head, at.i + r, at.j + c, row[c]);
  }
}
template <class T>
void drop(const AttentionScores& s, const Pairs& at, T* block) {
  const Draw draw(s, at.head);
  for (i64 r = 0; r < at.queries; ++r)
    for (i64 c = 0; c < at.keys; ++c)
      block[r * kKeys + c] =
          draw.keeps(at.i + r, at.j + c) ? block[r * kKeys + c] * T(s.keep_scale) : T(0);
}

// --- rows of scores ---

// NaN if there is one.
WT_TARGET_AVX2 float largest(const float* row, i64 n) {
  f32x8 m = splat8(-INFINITY);
  i32x8 unordered{};
  i64 i = 0;
  for (; i + 8 <= n; i += 8) {
    const f32x8 x = load8(row + i);
    m = max8(m, x);
    unordered |= x != x;
  }
  const f32x8 x = load_part8(row + i, n - i, -INFINITY);
  m = max8(m, x);
  unordered |= x != x;
  return _mm256_testz_si256(__m256i(unordered), __m256i(unordered)) ? max_of8(m) : NAN;
}
// row = exp(row - shift); the sum of it.
WT_TARGET_AVX2 float exponentials(float* row, i64 n, float shift) {
  f32x8 sum = splat8(0);
  i64 i = 0;
  for (; i + 8 <= n; i += 8) {
    const f32x8 e = exp8(load8(row + i) - shift);
    store8(row + i, e);
    sum += e;
  }
  const f32x8 e = exp8(load_part8(row + i, n - i, -INFINITY) - shift);
  store_part8(row + i, e, n - i);
  return sum_of8(sum + e);
}
WT_TARGET_AVX2 float dot(const float* a, const float* b, i64 n) {
  f32x8 sum = splat8(0);
  i64 i = 0;
  for (; i + 8 <= n; i += 8) sum += load8(a + i) * load8(b + i);
  return sum_of8(sum + load_part8(a + i, n - i, 0) * load_part8(b + i, n - i, 0));
}

using f64x4 = double __attribute__((vector_size(32)));
using i64x4 = i64 __attribute__((vector_size(32)));
constexpr i64 kDoubles = 4;
WT_AVX2_HOT f64x4 splat4(double v) { return f64x4{v, v, v, v}; }
WT_AVX2_HOT f64x4 load4(const double* p) { return f64x4(_mm256_loadu_pd(p)); }
// The first n < 4 elements; the others are `pad`.
WT_AVX2_HOT i64x4 lanes_below4(i64 n) { return i64x4{n, n, n, n} > i64x4{0, 1, 2, 3}; }
WT_AVX2_HOT f64x4 load_part4(const double* p, i64 n, double pad) {
  const i64x4 lanes = lanes_below4(n);
  return lanes ? f64x4(_mm256_maskload_pd(p, __m256i(lanes))) : splat4(pad);
}
WT_AVX2_HOT double sum_of4(f64x4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }

// exp for x <= 709, within 1 ulp: x = n ln 2 + r, the series of e^r to r^13 (the next term is below
// 2^-57 of the sum for |r| <= ln 2 / 2), and n into the exponent. Below -708 it is 0, NaN stays
// NaN.
WT_AVX2_HOT f64x4 exp4(f64x4 x) {
  constexpr double kLog2E = 0x1.71547652b82fep0;
  constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  const f64x4 magic = splat4(0x1.8p52 + 1023);  // the exponent's bias, too
  const f64x4 t = x * kLog2E + magic, n = t - magic;
  const f64x4 r = (x - n * kLn2High) - n * kLn2Low;
  constexpr double kSeries[] = {1.0 / 479001600,
                                1.0 / 39916800,
                                1.0 / 3628800,
                                1.0 / 362880,
                                1.0 / 40320,
                                1.0 / 5040,
                                1.0 / 720,
                                1.0 / 120,
                                1.0 / 24,
                                1.0 / 6,
                                0.5,
                                1.0,
                                1.0};
  f64x4 p = splat4(1.0 / 6227020800);
  for (double c : kSeries) p = p * r + c;
  i64x4 bits;
  std::memcpy(&bits, &t, sizeof bits);
  const i64x4 power_bits = bits << 52;
  f64x4 power;
  std::memcpy(&power, &power_bits, sizeof power);
  return x < -708.0 ? splat4(0) : p * power;
}

WT_TARGET_AVX2 double largest(const double* row, i64 n) {
  double most = -double(INFINITY);
  bool unordered = false;
  for (i64 k = 0; k < n; ++k) {
    most = row[k] > most ? row[k] : most;
    unordered |= row[k] != row[k];
  }
  return unordered ? double(NAN) : most;
}
WT_TARGET_AVX2 double exponentials(double* row, i64 n, double shift) {
  f64x4 sum = splat4(0);
  i64 i = 0;
  for (; i + kDoubles <= n; i += kDoubles) {
    const f64x4 e = exp4(load4(row + i) - shift);
    _mm256_storeu_pd(row + i, __m256d(e));
    sum += e;
  }
  const f64x4 e = exp4(load_part4(row + i, n - i, -double(INFINITY)) - shift);
  _mm256_maskstore_pd(row + i, __m256i(lanes_below4(n - i)), __m256d(e));
  return sum_of4(sum + e);
}
WT_TARGET_AVX2 double dot(const double* a, const double* b, i64 n) {
  f64x4 sum = splat4(0);
  i64 i = 0;
  for (; i + kDoubles <= n; i += kDoubles) sum += load4(a + i) * load4(b + i);
  return sum_of4(sum + load_part4(a + i, n - i, 0) * load_part4(b + i, n - i, 0));
}

// --- forward ---

template <class T>
struct Progress {
  T most = -T(INFINITY), sum = 0;
};

template <class T>
void forward_block(const AttentionForwardArgs& a, const Pairs& at, T* scores,
                   Progress<T>* progress) {
  const AttentionScores& s = a.scores;
  const i64 width = a.v.size(3), out_row = a.out.stride(2);
  times_transposed(scores, rows_of<T>(s.q, at.head.b, at.head.h, at.i), s.q.stride(2),
                   rows_of<T>(s.k, at.head.b, at.head.g, at.j), s.k.stride(2), at.queries, at.keys,
                   s.q.size(3));
  finish_scores(s, at, scores);
  T* out = const_cast<T*>(rows_of<T>(a.out, at.head.b, at.head.h, at.i));
  for (i64 r = 0; r < at.queries; ++r) {
    Progress<T>& p = progress[r];
    T* row = scores + r * kKeys;
    const T here = largest(row, at.keys);
    const T most = here > p.most || here != here ? here : p.most;
    const bool none = most == -T(INFINITY);
    const T before = none ? 1 : std::exp(p.most - most);
    p.sum = p.sum * before + exponentials(row, at.keys, none ? 0 : most);
    p.most = most;
    if (at.j > 0 && before != 1)
      for (i64 e = 0; e < width; ++e) out[r * out_row + e] *= before;
  }
  if (s.threshold) drop(s, at, scores);
  times_rows(out, out_row, scores, rows_of<T>(a.v, at.head.b, at.head.g, at.j), a.v.stride(2),
             at.queries, width, at.keys, at.j > 0, has_masked(s, at));
}

template <class T>
void forward_queries(const AttentionForwardArgs& a, i64 n, i64 first, T* scores) {
  const AttentionScores& s = a.scores;
  const i64 total = s.q.size(2), width = a.v.size(3);
  Pairs at{head_of(s, n), first, 0, std::min(queries_of(s), total - first), 0};
  const i64 keys = s.causal ? std::min(s.k.size(2), first + at.queries) : s.k.size(2);
  Progress<T> progress[kQueries];
  for (; at.j < keys; at.j += kKeys) {
    at.keys = std::min(kKeys, keys - at.j);
    forward_block<T>(a, at, scores, progress);
  }
  for (i64 r = 0; r < at.queries; ++r) {
    const Progress<T>& p = progress[r];
    T* out = const_cast<T*>(rows_of<T>(a.out, at.head.b, at.head.h, first + r));
    const bool none = p.most == -T(INFINITY);
    if (none)
      std::fill_n(out, width, T(0));
    else
      for (i64 e = 0; e < width; ++e) out[e] /= p.sum;
    if (a.lse) a.lse.as<T>()[n * total + first + r] = none ? T(INFINITY) : p.most + std::log(p.sum);
  }
}

template <class T>
void forward_all(const AttentionForwardArgs& a, const Launch& l) {
  const AttentionScores& s = a.scores;
  const i64 step = queries_of(s), blocks = (s.q.size(2) + step - 1) / step;
  auto* const scores = static_cast<T*>(l.workspace);
  parallel(threads_for(a), int(s.q.size(0) * s.q.size(1) * blocks), [&](int task, int worker) {
    forward_queries<T>(a, task / blocks, task % blocks * step, scores + worker * kBlock);
  });
}

}  // namespace

const char* blocked_why_not(const AttentionForwardArgs& a) {
  if (const char* why = why_not(a.scores, a.v)) return why;
  return has_rows(a.out) ? nullptr : "the elements of a result must be neighbours";
}
i64 blocked_workspace(const AttentionForwardArgs& a) {
  return threads_for(a) * kBlock * item_size(a.scores.q.dtype());
}
void blocked_forward(const AttentionForwardArgs& a, const Launch& l) {
  a.scores.q.dtype() == DType::f32 ? forward_all<float>(a, l) : forward_all<double>(a, l);
}

// --- backward ---
namespace {

// p = exp(score - lse); ds = p (d - D) scale, where ds holds d, and 0 where p is.
template <class T>
WT_TARGET_AVX2 void weights_row(T* p, T* ds, i64 n, T lse, T whole, T scale) {
  exponentials(p, n, lse);
  for (i64 c = 0; c < n; ++c) {
    const T slope = p[c] * (ds[c] - whole) * scale;
    ds[c] = p[c] == T(0) ? T(0) : slope;
  }
}
template <class T>
T* rows_to(const View& v, i64 b, i64 h, i64 first) {
  return const_cast<T*>(rows_of<T>(v, b, h, first));
}

// scores and products are blocks; afterwards p~ and ds.
// Rows of gout from `first` on, copied to `to` where their elements are no neighbours: the gradient
// of a sum is one number, expanded.
template <class T>
struct Rows {
  const T* data;
  i64 step;
};
template <class T>
Rows<T> gout_rows(const View& gout, const Pairs& at, T* to) {
  const T* const from = rows_of<T>(gout, at.head.b, at.head.h, at.i);
  if (has_rows(gout)) return {from, gout.stride(2)};
  const i64 width = gout.size(3);
  for (i64 r = 0; r < at.queries; ++r)
    for (i64 e = 0; e < width; ++e)
      to[r * width + e] = from[r * gout.stride(2) + e * gout.stride(3)];
  return {to, width};
}

template <class T>
void backward_block(const AttentionBackwardArgs& a, const Pairs& at, T* scores, T* products) {
  const AttentionScores& s = a.scores;
  const auto& [b, h, group] = at.head;
  const i64 depth = s.q.size(3), width = a.v.size(3);
  const T* q = rows_of<T>(s.q, b, h, at.i);
  const T* k = rows_of<T>(s.k, b, group, at.j);
  const Rows<T> gout = gout_rows(a.gout, at, products + kBlock);
  times_transposed(scores, q, s.q.stride(2), k, s.k.stride(2), at.queries, at.keys, depth);
  finish_scores(s, at, scores);
  times_transposed(products, gout.data, gout.step, rows_of<T>(a.v, b, group, at.j), a.v.stride(2),
                   at.queries, at.keys, width);
  if (s.threshold) drop(s, at, products);
  const T* lse = a.lse.as<const T>() + (b * s.q.size(1) + h) * s.q.size(2) + at.i;
  for (i64 r = 0; r < at.queries; ++r) {
    const T whole = dot(gout.data + r * gout.step, rows_of<T>(a.out, b, h, at.i + r), width);
    weights_row(scores + r * kKeys, products + r * kKeys, at.keys, lse[r], whole, T(s.scale));
  }
  const bool masked = has_masked(s, at);
  times_rows(rows_to<T>(a.gq, b, h, at.i), a.gq.stride(2), products, k, s.k.stride(2), at.queries,
             depth, at.keys, at.j > 0, masked);
  transposed_times(rows_to<T>(a.gk, b, group, at.j), a.gk.stride(2), products, q, s.q.stride(2),
                   at.keys, depth, at.queries, masked);
  if (s.threshold) drop(s, at, scores);
  transposed_times(rows_to<T>(a.gv, b, group, at.j), a.gv.stride(2), scores, gout.data, gout.step,
                   at.keys, width, at.queries, masked);
}

template <class T>
void zero_rows(const View& v, i64 b, i64 h) {
  for (i64 r = 0; r < v.size(2); ++r) std::fill_n(rows_to<T>(v, b, h, r), v.size(3), T(0));
}

// All pairs of a head of keys with the queries of the heads that share it.
template <class T>
void backward_head(const AttentionBackwardArgs& a, i64 b, i64 g, T* scores) {
  const AttentionScores& s = a.scores;
  const i64 queries = s.q.size(2), keys = s.k.size(2), step = queries_of(s);
  const i64 shared = s.q.size(1) / s.k.size(1);
  zero_rows<T>(a.gk, b, g);
  zero_rows<T>(a.gv, b, g);
  for (i64 h = g * shared; h < (g + 1) * shared; ++h) {
    if (keys == 0) zero_rows<T>(a.gq, b, h);
    for (i64 j = 0; j < keys; j += kKeys)
      for (i64 i = s.causal ? j / step * step : 0; i < queries; i += step) {
        const i64 here = std::min(step, queries - i);
        const i64 seen = std::min(kKeys, (s.causal ? std::min(keys, i + here) : keys) - j);
        backward_block(a, {{b, h, g}, i, j, here, seen}, scores, scores + kBlock);
      }
  }
}

// Of a thread: two blocks, and rows of gout.
i64 backward_elements(const AttentionBackwardArgs& a) {
  return 2 * kBlock + (has_rows(a.gout) ? 0 : kQueries * a.gout.size(3));
}
template <class T>
void backward_all(const AttentionBackwardArgs& a, const Launch& l) {
  const i64 groups = a.scores.k.size(1);
  auto* const workspace = static_cast<T*>(l.workspace);
  parallel(threads_for(a), int(a.scores.k.size(0) * groups), [&](int task, int worker) {
    backward_head<T>(a, task / groups, task % groups, workspace + worker * backward_elements(a));
  });
}
}  // namespace

const char* blocked_why_not(const AttentionBackwardArgs& a) {
  if (const char* why = why_not(a.scores, a.v)) return why;
  for (const View& v : {a.out, a.gq, a.gk, a.gv})
    if (!has_rows(v)) return "the elements of a result must be neighbours";
  return nullptr;
}
i64 blocked_workspace(const AttentionBackwardArgs& a) {
  return threads_for(a) * backward_elements(a) * item_size(a.scores.q.dtype());
}
void blocked_backward(const AttentionBackwardArgs& a, const Launch& l) {
  a.scores.q.dtype() == DType::f32 ? backward_all<float>(a, l) : backward_all<double>(a, l);
}
#else
const char* blocked_why_not(const AttentionForwardArgs&) { return "x86 only"; }
const char* blocked_why_not(const AttentionBackwardArgs&) { return "x86 only"; }
i64 blocked_workspace(const AttentionForwardArgs&) { return 0; }
i64 blocked_workspace(const AttentionBackwardArgs&) { return 0; }
void blocked_forward(const AttentionForwardArgs&, const Launch&) {}
void blocked_backward(const AttentionBackwardArgs&, const Launch&) {}
#endif

}  // namespace wt::attention
