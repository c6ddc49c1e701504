// Attention on the cpu: the reference, a query at a time.
#include "warptape/kernels/attention.h"

#include <algorithm>

#include "warptape/kernels/attention/attention_cpu.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/slow_reference.h"

namespace wt {
namespace {

using attention::at;
using attention::Draw;
using attention::Head;
using attention::head_of;

// s(i, :) into row; its largest element.
template <class T, class A>
A score_row(const AttentionScores& s, const Head& head, i64 i, A* row) {
  const i64 depth = s.q.size(3), keys = s.k.size(2);
  const T* q = s.q.as<const T>() + at(s.q, head.b, head.h) + i * s.q.stride(2);
  A most = -A(INFINITY);
  for (i64 j = 0; j < keys; ++j) {
    const T* k = s.k.as<const T>() + at(s.k, head.b, head.g) + j * s.k.stride(2);
    A sum = 0;
    for (i64 e = 0; e < depth; ++e) sum += A(q[e * s.q.stride(3)]) * A(k[e * s.k.stride(3)]);
    row[j] = attention::masked_score<T, A>(s, head, i, j, sum * A(s.scale));
    if (row[j] > most || row[j] != row[j]) most = row[j];
  }
  return most;
}

i64 row_bytes(const AttentionScores& s, int rows) {
  return rows * s.k.size(2) * (s.q.dtype() == DType::f64 ? 8 : 4);
}

i64 forward_workspace(const AttentionForwardArgs& a) { return row_bytes(a.scores, 1); }

void forward_reference(const AttentionForwardArgs& a, const Launch& l) {
  const AttentionScores& s = a.scores;
  const i64 queries = s.q.size(2), keys = s.k.size(2), width = a.v.size(3);
  dispatch_floating(s.q.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    A* const row = static_cast<A*>(l.workspace);
    for (i64 n = 0; n < s.q.size(0) * s.q.size(1); ++n) {
      const Head head = head_of(s, n);
      const Draw draw(s, head);
      const T* v = a.v.as<const T>() + at(a.v, head.b, head.g);
      for (i64 i = 0; i < queries; ++i) {
        const A most = score_row<T>(s, head, i, row);
        const bool none = most == -A(INFINITY);
        A sum = 0;
        for (i64 j = 0; j < keys; ++j) sum += row[j] = none ? A(0) : std::exp(row[j] - most);
        if (a.lse) a.lse.as<A>()[n * queries + i] = none ? A(INFINITY) : most + std::log(sum);
        if (s.threshold)
          for (i64 j = 0; j < keys; ++j) row[j] *= draw.keeps(i, j) ? A(s.keep_scale) : A(0);
        T* out = a.out.as<T>() + at(a.out, head.b, head.h) + i * a.out.stride(2);
        for (i64 e = 0; e < width; ++e) {
          A y = 0;
          for (i64 j = 0; j < keys; ++j)
            if (row[j] != 0) y += row[j] * A(v[j * a.v.stride(2) + e * a.v.stride(3)]);
          out[e * a.out.stride(3)] = T(none ? A(0) : y / sum);
        }
      }
    }
  });
}

// Rows of p, p~ and ds, and the sums of gk and gv of one head of keys.
i64 backward_workspace(const AttentionBackwardArgs& a) {
  return row_bytes(a.scores, int(2 + a.scores.k.size(3) + a.v.size(3)));
}

template <class T, class A>
struct BackwardOfHead {
  const AttentionBackwardArgs& a;
  A *p, *ds, *gk, *gv;  // rows of keys; [keys, E] and [keys, Ev]

  void query(const Head& head, i64 i) const {
    const AttentionScores& s = a.scores;
    const i64 keys = s.k.size(2), depth = s.q.size(3), width = a.v.size(3);
    const Draw draw(s, head);
    const i64 row = (head.b * s.q.size(1) + head.h) * s.q.size(2) + i;
    const T* gout = a.gout.as<const T>() + at(a.gout, head.b, head.h) + i * a.gout.stride(2);
    const T* out = a.out.as<const T>() + at(a.out, head.b, head.h) + i * a.out.stride(2);
    const T* q = s.q.as<const T>() + at(s.q, head.b, head.h) + i * s.q.stride(2);
    const T* k = s.k.as<const T>() + at(s.k, head.b, head.g);
    const T* v = a.v.as<const T>() + at(a.v, head.b, head.g);
    score_row<T>(s, head, i, p);
    const A lse = a.lse.as<const A>()[row];
    A whole = 0;  // D(i)
    for (i64 e = 0; e < width; ++e)
      whole += A(gout[e * a.gout.stride(3)]) * A(out[e * a.out.stride(3)]);
    for (i64 j = 0; j < keys; ++j) {
      p[j] = std::exp(p[j] - lse);
      ds[j] = 0;
      if (p[j] == 0) continue;
      const A keep = !s.threshold ? A(1) : draw.keeps(i, j) ? A(s.keep_scale) : A(0);
      A d = 0;
      for (i64 e = 0; e < width; ++e) {
        const A g = A(gout[e * a.gout.stride(3)]);
        d += g * A(v[j * a.v.stride(2) + e * a.v.stride(3)]);
        if (keep != 0) gv[j * width + e] += keep * p[j] * g;
      }
      ds[j] = p[j] * ((keep == 0 ? A(0) : keep * d) - whole) * A(s.scale);
      for (i64 e = 0; e < depth; ++e) gk[j * depth + e] += ds[j] * A(q[e * s.q.stride(3)]);
    }
    T* gq = a.gq.as<T>() + at(a.gq, head.b, head.h) + i * a.gq.stride(2);
    for (i64 e = 0; e < depth; ++e) {
      A sum = 0;
      for (i64 j = 0; j < keys; ++j)
        if (ds[j] != 0) sum += ds[j] * A(k[j * s.k.stride(2) + e * s.k.stride(3)]);
      gq[e * a.gq.stride(3)] = T(sum);
    }
  }
};

void backward_reference(const AttentionBackwardArgs& a, const Launch& l) {
  const AttentionScores& s = a.scores;
  const i64 keys = s.k.size(2), depth = s.q.size(3), width = a.v.size(3);
  const i64 shared = s.k.size(1) ? s.q.size(1) / s.k.size(1) : 0;
  dispatch_floating(s.q.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    A* const rows = static_cast<A*>(l.workspace);
    const BackwardOfHead<T, A> of{a, rows, rows + keys, rows + 2 * keys, rows + (2 + depth) * keys};
    for (i64 n = 0; n < s.k.size(0) * s.k.size(1); ++n) {
      const i64 b = n / s.k.size(1), g = n % s.k.size(1);
      std::fill_n(of.gk, keys * (depth + width), A(0));
      for (i64 h = g * shared; h < (g + 1) * shared; ++h)
        for (i64 i = 0; i < s.q.size(2); ++i) of.query({b, h, g}, i);
      const auto store = [&](const View& to, const A* sums) {
        for (i64 j = 0; j < keys; ++j)
          for (i64 e = 0; e < to.size(3); ++e)
            to.as<T>()[at(to, b, g) + j * to.stride(2) + e * to.stride(3)] = T(*sums++);
      };
      store(a.gk, of.gk);
      store(a.gv, of.gv);
    }
  });
}

// Which of the functions of one name a table means.
template <class Args>
struct Blocked {
  static constexpr const char* (*why_not)(const Args&) = attention::blocked_why_not;
  static constexpr i64 (*workspace)(const Args&) = attention::blocked_workspace;
};
template <class Args>
struct Widened {
  static constexpr const char* (*why_not)(const Args&) = attention::widened_why_not;
  static constexpr i64 (*workspace)(const Args&) = attention::widened_workspace;
};

}  // namespace

WT_VARIANTS(cpu, attention_forward, AttentionForwardArgs,
            {.name = "few_queries",
             .rank = 30,
             .why_not = attention::few_queries_why_not,
             .workspace = attention::few_queries_workspace,
             .launch = attention::few_queries_forward},
            {.name = "blocked",
             .rank = 20,
             .why_not = Blocked<AttentionForwardArgs>::why_not,
             .workspace = Blocked<AttentionForwardArgs>::workspace,
             .launch = attention::blocked_forward},
            {.name = "widened",
             .rank = 20,
             .why_not = Widened<AttentionForwardArgs>::why_not,
             .workspace = Widened<AttentionForwardArgs>::workspace,
             .launch = attention::widened_forward},
            {.name = "reference",
             .rank = 1,
             .workspace = forward_workspace,
             .launch = told_if_slow<forward_reference>});
WT_VARIANTS(cpu, attention_backward, AttentionBackwardArgs,
            {.name = "blocked",
             .rank = 20,
             .why_not = Blocked<AttentionBackwardArgs>::why_not,
             .workspace = Blocked<AttentionBackwardArgs>::workspace,
             .launch = attention::blocked_backward},
            {.name = "widened",
             .rank = 20,
             .why_not = Widened<AttentionBackwardArgs>::why_not,
             .workspace = Widened<AttentionBackwardArgs>::workspace,
             .launch = attention::widened_backward},
            {.name = "reference",
             .rank = 1,
             .workspace = backward_workspace,
             .launch = told_if_slow<backward_reference>});

}  // namespace wt
