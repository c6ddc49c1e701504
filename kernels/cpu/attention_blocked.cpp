// Attention of floats on the cpu in blocks of queries and keys (Dao et al. 2022, arXiv:2205.14135):
// the products go through the small matrix products, the exponentials eight at a time. A block of
// scores stays in the cache; nothing grows with the number of pairs.
#include <algorithm>
#include <cstring>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/attention.h"
#include "warptape/kernels/cpu/matmul.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt::attention {

#if WT_X86
namespace {

constexpr i64 kQueries = 64, kKeys = 128;  // of a block; kKeys is also the row of its scores
constexpr i64 kFewQueries = 32;            // of a block of a short causal head
constexpr i64 kBlock = kQueries * kKeys;   // floats
constexpr double kWorkAThread = 1 << 16;   // multiplications; waking a helper costs some 3 us

// Rows that a matrix product takes as they lie.
bool has_rows(const View& v) {
  return (v.stride(3) == 1 || v.size(3) <= 1) && (v.stride(2) >= v.size(3) || v.size(2) <= 1);
}
const char* why_not(const AttentionScores& s, const View& v) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  if (s.q.dtype() != DType::f32) return "f32 only";
  if (!has_rows(s.q) || !has_rows(s.k) || !has_rows(v))
    return "the elements of a query, key or value must be neighbours";
  return nullptr;
}
template <class Args>
int threads_for(const Args& a) {
  return int(std::min(double(num_threads()), double(a.flops()) / kWorkAThread + 1));
}

MatmulArgs product(float* out, i64 out_row, i64 m, i64 n, i64 k) {
  MatmulArgs g;
  g.out = out;
  g.out_row = out_row;
  g.m = m, g.n = n, g.k = k;
  return g;
}
// Rows of a head, from row `first` on.
const float* rows_of(const View& v, i64 b, i64 h, i64 first) {
  return v.as<const float>() + at(v, b, h) + first * v.stride(2);
}
// out[m, n] = a[m, k] (b[n, k])^T
void times_transposed(float* out, const float* a, i64 a_row, const float* b, i64 b_row, i64 m,
                      i64 n, i64 k) {
  MatmulArgs g = product(out, kKeys, m, n, k);
  g.a = a, g.a_row = a_row;
  g.b = b, g.b_row = 1, g.b_column = b_row;
  matmul_tiny(g, {});
}
// out[m, n] (+)= a[m, k] b[k, n], a a block of scores
void times_rows(float* out, i64 out_row, const float* a, const float* b, i64 b_row, i64 m, i64 n,
                i64 k, bool add) {
  MatmulArgs g = product(out, out_row, m, n, k);
  g.a = a, g.a_row = kKeys;
  g.b = b, g.b_row = b_row;
  g.accumulate = add;
  matmul_tiny(g, {});
}
// out[m, n] += (a[k, m])^T b[k, n], a a block of scores
void transposed_times(float* out, i64 out_row, const float* a, const float* b, i64 b_row, i64 m,
                      i64 n, i64 k) {
  MatmulArgs g = product(out, out_row, m, n, k);
  g.a = a, g.a_row = 1, g.a_column = kKeys;
  g.b = b, g.b_row = b_row;
  g.accumulate = true;
  matmul_tiny(g, {});
}

// The pairs of a block.
struct Pairs {
  Head head;
  i64 i, j;           // the first query and key
  i64 queries, keys;  // how many
};

// Queries of a block: where a block of keys holds all, a smaller one skips more of what `causal`
// hides.
i64 queries_of(const AttentionScores& s) {
  return s.causal && s.k.size(2) <= kKeys ? kFewQueries : kQueries;
}

WT_TARGET_AVX2 void scale_row(float* row, i64 n, float scale) {
  for (i64 c = 0; c < n; ++c) row[c] *= scale;
}
// Products of queries and keys to scores; what must not be seen becomes -inf.
void finish_scores(const AttentionScores& s, const Pairs& at, float* scores) {
  for (i64 r = 0; r < at.queries; ++r) {
    float* row = scores + r * kKeys;
    const i64 seen = s.causal ? std::clamp<i64>(at.i + r - at.j + 1, 0, at.keys) : at.keys;
    scale_row(row, seen, float(s.scale));
    std::fill(row + seen, row + at.keys, -INFINITY);
    if (!s.mask) continue;
    for (i64 c = 0; c < seen; ++c)
      row[c] = masked_score<float, float>(s, at.head, at.i + r, at.j + c, row[c]);
  }
}
void drop(const AttentionScores& s, const Pairs& at, float* block) {
  const Draw draw(s, at.head);
  for (i64 r = 0; r < at.queries; ++r)
    for (i64 c = 0; c < at.keys; ++c)
      block[r * kKeys + c] *= draw.keeps(at.i + r, at.j + c) ? float(s.keep_scale) : 0.0f;
}

WT_TARGET_AVX2 float largest(const float* row, i64 n) {
  f32x8 m = splat8(-INFINITY);
  i64 i = 0;
  for (; i + 8 <= n; i += 8) m = max8(m, load8(row + i));
  m = max8(m, load_part8(row + i, n - i, -INFINITY));
  float most = max_of8(m);
  for (i64 k = 0; k < n; ++k)  // max8 passes over NaN
    if (row[k] != row[k]) most = row[k];
  return most;
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

// --- forward ---

struct Progress {
  float most = -INFINITY, sum = 0;
};

void forward_block(const AttentionForwardArgs& a, const Pairs& at, float* scores,
                   Progress* progress) {
  const AttentionScores& s = a.scores;
  const i64 width = a.v.size(3), out_row = a.out.stride(2);
  times_transposed(scores, rows_of(s.q, at.head.b, at.head.h, at.i), s.q.stride(2),
                   rows_of(s.k, at.head.b, at.head.g, at.j), s.k.stride(2), at.queries, at.keys,
                   s.q.size(3));
  finish_scores(s, at, scores);
  float* out = const_cast<float*>(rows_of(a.out, at.head.b, at.head.h, at.i));
  for (i64 r = 0; r < at.queries; ++r) {
    Progress& p = progress[r];
    float* row = scores + r * kKeys;
    const float here = largest(row, at.keys);
    const float most = here > p.most || here != here ? here : p.most;
    const bool none = most == -INFINITY;
    const float before = none ? 1 : std::exp(p.most - most);
    p.sum = p.sum * before + exponentials(row, at.keys, none ? 0 : most);
    p.most = most;
    if (at.j > 0 && before != 1)
      for (i64 e = 0; e < width; ++e) out[r * out_row + e] *= before;
  }
  if (s.threshold) drop(s, at, scores);
  times_rows(out, out_row, scores, rows_of(a.v, at.head.b, at.head.g, at.j), a.v.stride(2),
             at.queries, width, at.keys, at.j > 0);
}

void forward_queries(const AttentionForwardArgs& a, i64 n, i64 first, float* scores) {
  const AttentionScores& s = a.scores;
  const i64 total = s.q.size(2), width = a.v.size(3);
  Pairs at{head_of(s, n), first, 0, std::min(queries_of(s), total - first), 0};
  const i64 keys = s.causal ? std::min(s.k.size(2), first + at.queries) : s.k.size(2);
  Progress progress[kQueries];
  for (; at.j < keys; at.j += kKeys) {
    at.keys = std::min(kKeys, keys - at.j);
    forward_block(a, at, scores, progress);
  }
  for (i64 r = 0; r < at.queries; ++r) {
    const Progress& p = progress[r];
    float* out = const_cast<float*>(rows_of(a.out, at.head.b, at.head.h, first + r));
    const bool none = p.most == -INFINITY;
    if (none)
      std::fill_n(out, width, 0.0f);
    else
      for (i64 e = 0; e < width; ++e) out[e] /= p.sum;
    if (a.lse)
      a.lse.as<float>()[n * total + first + r] = none ? INFINITY : p.most + std::log(p.sum);
  }
}

}  // namespace

const char* blocked_why_not(const AttentionForwardArgs& a) {
  if (const char* why = why_not(a.scores, a.v)) return why;
  return has_rows(a.out) ? nullptr : "the elements of a result must be neighbours";
}
i64 blocked_workspace(const AttentionForwardArgs& a) {
  return threads_for(a) * kBlock * i64(sizeof(float));
}
void blocked_forward(const AttentionForwardArgs& a, const Launch& l) {
  const AttentionScores& s = a.scores;
  const i64 step = queries_of(s), blocks = (s.q.size(2) + step - 1) / step;
  auto* const scores = static_cast<float*>(l.workspace);
  parallel(threads_for(a), int(s.q.size(0) * s.q.size(1) * blocks), [&](int task, int worker) {
    forward_queries(a, task / blocks, task % blocks * step, scores + worker * kBlock);
  });
}

// --- backward ---
namespace {

// p = exp(score - lse); ds = p (d - D) scale, where ds holds d.
WT_TARGET_AVX2 void weights_row(float* p, float* ds, i64 n, float lse, float whole, float scale) {
  exponentials(p, n, lse);
  for (i64 c = 0; c < n; ++c) ds[c] = p[c] * (ds[c] - whole) * scale;
}
WT_TARGET_AVX2 float dot(const float* a, const float* b, i64 n) {
  f32x8 sum = splat8(0);
  i64 i = 0;
  for (; i + 8 <= n; i += 8) sum += load8(a + i) * load8(b + i);
  return sum_of8(sum + load_part8(a + i, n - i, 0) * load_part8(b + i, n - i, 0));
}

float* rows_to(const View& v, i64 b, i64 h, i64 first) {
  return const_cast<float*>(rows_of(v, b, h, first));
}

// scores and products are blocks; afterwards p~ and ds.
void backward_block(const AttentionBackwardArgs& a, const Pairs& at, float* scores,
                    float* products) {
  const AttentionScores& s = a.scores;
  const auto& [b, h, group] = at.head;
  const i64 depth = s.q.size(3), width = a.v.size(3);
  const float* q = rows_of(s.q, b, h, at.i);
  const float* k = rows_of(s.k, b, group, at.j);
  const float* gout = rows_of(a.gout, b, h, at.i);
  times_transposed(scores, q, s.q.stride(2), k, s.k.stride(2), at.queries, at.keys, depth);
  finish_scores(s, at, scores);
  times_transposed(products, gout, a.gout.stride(2), rows_of(a.v, b, group, at.j), a.v.stride(2),
                   at.queries, at.keys, width);
  if (s.threshold) drop(s, at, products);
  const float* lse = a.lse.as<const float>() + (b * s.q.size(1) + h) * s.q.size(2) + at.i;
  for (i64 r = 0; r < at.queries; ++r) {
    const float whole = dot(gout + r * a.gout.stride(2), rows_of(a.out, b, h, at.i + r), width);
    weights_row(scores + r * kKeys, products + r * kKeys, at.keys, lse[r], whole, float(s.scale));
  }
  times_rows(rows_to(a.gq, b, h, at.i), a.gq.stride(2), products, k, s.k.stride(2), at.queries,
             depth, at.keys, at.j > 0);
  transposed_times(rows_to(a.gk, b, group, at.j), a.gk.stride(2), products, q, s.q.stride(2),
                   at.keys, depth, at.queries);
  if (s.threshold) drop(s, at, scores);
  transposed_times(rows_to(a.gv, b, group, at.j), a.gv.stride(2), scores, gout, a.gout.stride(2),
                   at.keys, width, at.queries);
}

void zero_rows(const View& v, i64 b, i64 h) {
  for (i64 r = 0; r < v.size(2); ++r) std::fill_n(rows_to(v, b, h, r), v.size(3), 0.0f);
}

// All pairs of a head of keys with the queries of the heads that share it.
void backward_head(const AttentionBackwardArgs& a, i64 b, i64 g, float* scores) {
  const AttentionScores& s = a.scores;
  const i64 queries = s.q.size(2), keys = s.k.size(2), step = queries_of(s);
  const i64 shared = s.q.size(1) / s.k.size(1);
  zero_rows(a.gk, b, g);
  zero_rows(a.gv, b, g);
  for (i64 h = g * shared; h < (g + 1) * shared; ++h) {
    if (keys == 0) zero_rows(a.gq, b, h);
    for (i64 j = 0; j < keys; j += kKeys)
      for (i64 i = s.causal ? j / step * step : 0; i < queries; i += step) {
        const i64 here = std::min(step, queries - i);
        const i64 seen = std::min(kKeys, (s.causal ? std::min(keys, i + here) : keys) - j);
        backward_block(a, {{b, h, g}, i, j, here, seen}, scores, scores + kBlock);
      }
  }
}

}  // namespace

const char* blocked_why_not(const AttentionBackwardArgs& a) {
  if (const char* why = why_not(a.scores, a.v)) return why;
  for (const View& v : {a.gout, a.out, a.gq, a.gk, a.gv})
    if (!has_rows(v)) return "the elements of a result must be neighbours";
  return nullptr;
}
i64 blocked_workspace(const AttentionBackwardArgs& a) {
  return threads_for(a) * 2 * kBlock * i64(sizeof(float));
}
void blocked_backward(const AttentionBackwardArgs& a, const Launch& l) {
  const i64 groups = a.scores.k.size(1);
  auto* const workspace = static_cast<float*>(l.workspace);
  parallel(threads_for(a), int(a.scores.k.size(0) * groups), [&](int task, int worker) {
    backward_head(a, task / groups, task % groups, workspace + worker * 2 * kBlock);
  });
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
