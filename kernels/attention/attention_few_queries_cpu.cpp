// Attention of at most four queries on the cpu, f32 and 16-bit floats: a token that looks back at
// its keys. Keys and values are read once each, where they lie, by the kernels of products of few
// rows; 16-bit ones are widened in registers, the rest is f32 and the result rounded once.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/attention/attention_cpu.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/exp_rows.h"
#include "warptape/kernels/cpu/few_rows.h"
#include "warptape/kernels/cpu/half_rows.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt::attention {
namespace {

constexpr double kWorkAThread = 1 << 16;  // multiplications; waking a helper costs some 3 us

bool has_rows(const View& v) { return v.stride(3) == 1 || v.size(3) <= 1; }

bool is_masked(const AttentionScores& s) { return s.mask || s.causal; }

int threads_for(const AttentionForwardArgs& a) {
  return int(std::min(double(num_threads()), double(a.flops()) / kWorkAThread + 1));
}

void convert(float* to, const float* from, i64 n) { std::copy_n(from, n, to); }
template <class To, class From>
void convert(To* to, const From* from, i64 n) {
  detail::convert_row(to, from, n);
}

// A head's queries, scores and results, each a row a query.
struct Work {
  float *q, *scores, *out;
  Work(const AttentionForwardArgs& a, float* base)
      : q(base),
        scores(q + a.scores.q.size(2) * a.scores.q.size(3)),
        out(scores + a.scores.q.size(2) * a.scores.k.size(2)) {}
  static i64 elements(const AttentionForwardArgs& a) {
    const AttentionScores& s = a.scores;
    return s.q.size(2) * (s.q.size(3) + s.k.size(2) + a.v.size(3));
  }
};

// A row of scores to weights that are still to be divided by what is returned; 0: it sees no key.
float to_weights(float* row, i64 keys, float& most) {
  const ExpRows& exps = exp_rows();
  most = exps.largest(row, keys);
  return exps.kept(row, row, keys, most == -INFINITY ? 0 : most, 0);
}

// out += weights times rows of v, of pairs that are not all seen: what has no weight is not read,
// for it may be infinite or NaN.
template <class T>
void add_seen(const FewRows<T>& all) {
  for (i64 j = 0; j < all.depth;) {
    const i64 from = j;
    while (j < all.depth && all.a[j] != 0) ++j;
    if (j == from) {
      ++j;
      continue;
    }
    FewRows<T> run = all;
    run.a += from, run.b += from * all.b_row;
    run.depth = j - from;
    few_rows_kernels<T>().add_rows[0](run);
  }
}

// The weights of a head's keys; their sums and the largest scores, a query each.
template <class T>
void weigh(const AttentionForwardArgs& a, const Head& head, const Work& w, float* sums,
           float* most) {
  const AttentionScores& s = a.scores;
  const i64 queries = s.q.size(2), keys = s.k.size(2), depth = s.q.size(3);
  const T* const q = s.q.as<const T>() + at(s.q, head.b, head.h);
  const T* const k = s.k.as<const T>() + at(s.k, head.b, head.g);
  for (i64 i = 0; i < queries; ++i) convert(w.q + i * depth, q + i * s.q.stride(2), depth);
  for (i64 e = 0; e < queries * depth; ++e) w.q[e] *= float(s.scale);
  few_rows_kernels<T>().dot_columns[queries - 1](
      {w.q, depth, 1, k, 1, s.k.stride(2), w.scores, keys, nullptr, keys, depth, false});
  for (i64 i = 0; i < queries; ++i) {
    float* const row = w.scores + i * keys;
    for (i64 j = 0; j < keys && is_masked(s); ++j)
      row[j] = masked_score<T, float>(s, head, i, j, row[j]);
    sums[i] = to_weights(row, keys, most[i]);
  }
}

template <class T>
void head_of_queries(const AttentionForwardArgs& a, i64 n, const Work& w) {
  const AttentionScores& s = a.scores;
  const Head head = head_of(s, n);
  const i64 queries = s.q.size(2), keys = s.k.size(2), width = a.v.size(3), step = a.v.stride(2);
  float sums[kMostFewRows], most[kMostFewRows];
  weigh<T>(a, head, w, sums, most);
  const T* const v = a.v.as<const T>() + at(a.v, head.b, head.g);
  FewRows<T> g{w.scores, keys, 1, v, step, 1, w.out, width, nullptr, width, keys, false};
  if (!is_masked(s)) {
    few_rows_kernels<T>().add_rows[queries - 1](g);
  } else {
    std::fill_n(w.out, queries * width, 0.0f);
    g.add = true;
    for (i64 i = 0; i < queries; ++i, g.a += keys, g.out += width) add_seen(g);
  }
  T* const out = a.out.as<T>() + at(a.out, head.b, head.h);
  for (i64 i = 0; i < queries; ++i) {
    float* const row = w.out + i * width;
    const bool none = sums[i] == 0;
    const float share = 1 / sums[i];
    for (i64 e = 0; e < width; ++e) row[e] = none ? 0 : row[e] * share;
    convert(out + i * a.out.stride(2), row, width);
    if (a.lse)
      a.lse.as<float>()[n * queries + i] = none ? float(INFINITY) : most[i] + std::log(sums[i]);
  }
}

}  // namespace

const char* few_queries_why_not(const AttentionForwardArgs& a) {
  const AttentionScores& s = a.scores;
  if (s.q.dtype() == DType::f64) return "takes f32, f16 and bf16 only";
  if (s.q.size(2) > kMostFewRows) return "takes at most four queries";
  if (s.threshold) return "has no dropout";
  if (!has_rows(s.q) || !has_rows(s.k) || !has_rows(a.v) || !has_rows(a.out))
    return "the elements of a query, key, value or result must be neighbours";
  return nullptr;
}
i64 few_queries_workspace(const AttentionForwardArgs& a) {
  return threads_for(a) * Work::elements(a) * i64(sizeof(float));
}
void few_queries_forward(const AttentionForwardArgs& a, const Launch& l) {
  const AttentionScores& s = a.scores;
  if (s.q.size(2) == 0) return;
  auto* const base = static_cast<float*>(l.workspace);
  const auto run = [&]<class T>() {
    parallel(threads_for(a), int(s.q.size(0) * s.q.size(1)), [&](int task, int worker) {
      head_of_queries<T>(a, task, Work(a, base + worker * Work::elements(a)));
    });
  };
  dispatch_floating(s.q.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) run.template operator()<T>();
  });
}

}  // namespace wt::attention
