// What the cpu variants of attention share. Internal to this room.
#pragma once
#include <cmath>

#include "warptape/kernels/attention.h"
#include "warptape/kernels/dropout.h"

namespace wt::attention {

// Sizes and strides, with batch and head in hand.
struct Head {
  i64 b, h, g;  // g: the head of k and v
};
inline i64 at(const View& v, i64 b, i64 h) { return b * v.stride(0) + h * v.stride(1); }
inline Head head_of(const AttentionScores& s, i64 index) {
  const i64 heads = s.q.size(1), shared = heads / s.k.size(1);
  const i64 h = index % heads;
  return {index / heads, h, h / shared};
}

// keep(i, j) of a head's pairs.
class Draw {
 public:
  Draw(const AttentionScores& s, const Head& at)
      : s_(s),
        call_(s.call + (s.call_base ? u64(*s.call_base) : 0)),
        first_((at.b * s.q.size(1) + at.h) * s.q.size(2) * s.k.size(2)) {}
  bool keeps(i64 i, i64 j) const {
    const u64 e = u64(first_ + i * s_.k.size(2) + j);
    return DropoutArgs::keeps(philox(s_.key, e / 4, call_).v[e % 4], s_.threshold);
  }

 private:
  const AttentionScores& s_;
  u64 call_;
  i64 first_;
};

// s(i, j) with what the mask makes of it: -inf, whatever it was, where j must not be seen.
template <class T, class A>
A masked_score(const AttentionScores& s, const Head& at, i64 i, i64 j, A score) {
  if (s.causal && j > i) return -A(INFINITY);
  if (!s.mask) return score;
  const i64 place = attention::at(s.mask, at.b, at.h) + i * s.mask.stride(2) + j * s.mask.stride(3);
  if (s.mask.dtype() == DType::boolean)
    return s.mask.as<const bool>()[place] ? score : -A(INFINITY);
  const A m = A(s.mask.as<const T>()[place]);
  return m == -A(INFINITY) ? m : score + m;
}

// attention/attention_blocked_cpu.cpp: f32 and f64, blocks of queries and keys.
const char* blocked_why_not(const AttentionForwardArgs& a);
const char* blocked_why_not(const AttentionBackwardArgs& a);
i64 blocked_workspace(const AttentionForwardArgs& a);
i64 blocked_workspace(const AttentionBackwardArgs& a);
void blocked_forward(const AttentionForwardArgs& a, const Launch& l);
void blocked_backward(const AttentionBackwardArgs& a, const Launch& l);

// attention/attention_few_queries_cpu.cpp: up to four queries, as fast as keys and values come from
// memory.
const char* few_queries_why_not(const AttentionForwardArgs& a);
i64 few_queries_workspace(const AttentionForwardArgs& a);
void few_queries_forward(const AttentionForwardArgs& a, const Launch& l);

// attention/attention_widened_cpu.cpp: f16 and bf16 by way of f32 copies.
const char* widened_why_not(const AttentionForwardArgs& a);
const char* widened_why_not(const AttentionBackwardArgs& a);
i64 widened_workspace(const AttentionForwardArgs& a);
i64 widened_workspace(const AttentionBackwardArgs& a);
void widened_forward(const AttentionForwardArgs& a, const Launch& l);
void widened_backward(const AttentionBackwardArgs& a, const Launch& l);

}  // namespace wt::attention
