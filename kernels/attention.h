// Scaled dot-product attention, forward and backward, without a matrix of all scores.
#pragma once
#include "warptape/core/philox.h"
#include "warptape/kernels/contract.h"

namespace wt {

// What both directions share. For batch b, head h, query i and key j, with g = h / (H / Hk):
//   s(i, j) = scale * sum_e q[b, h, i, e] k[b, g, j, e] + mask[b, h, i, j]
//   p(i, j) = exp(s(i, j) - lse(i)),  lse(i) = log sum_j exp(s(i, j))
// Pairs that may not attend (mask false or -inf, or j > i under `causal`) have p = 0, and nothing
// of what they read goes into a result, NaN and infinities neither (f32 and f64; the tensor cores'
// and cuDNN's kernels multiply by that 0); a query without any key gives zeros. q [B, H, L, E], k
// [B, Hk, S, E], v [B, Hk, S, Ev], one dtype of f64 f32 f16 bf16 (16 bits compute in f32, but p~
// and its gradient may be rounded to 16 bits before they are multiplied by v, k or q: tensor cores
// want them so), any strides; H is a multiple of Hk. mask: [B, H, L, S], bool or of q's dtype, any
// strides (expanded ones too), or absent.
//
// Dropout: p~(i, j) = keep ? p(i, j) * keep_scale : 0 with the draw of kernels/dropout.h for the
// element [b, h, i, j] of [B, H, L, S]; threshold 0 drops nothing.
struct AttentionScores {
  View q, k, mask;
  double scale = 1;
  bool causal = false;
  PhiloxKey key{};
  u64 call = 0;
  const i64* call_base = nullptr;  // a device scalar that is added to `call`; null: 0
  u32 threshold = 0;               // of 2^24
  double keep_scale = 1;
};

// out[b, h, i, :] = sum_j p~(i, j) v[b, g, j, :]; out [B, H, L, Ev], of q's dtype, any strides.
// lse: [B, H, L], contiguous, f64 for f64, else f32, saved for the backward (inf for a query
// without any key); may be absent.
struct AttentionForwardArgs {
  View out, lse;
  View v;
  AttentionScores scores;
  i64 bytes() const {
    return out.bytes() + scores.q.bytes() + scores.k.bytes() + v.bytes() +
           (scores.mask ? scores.mask.bytes() : 0);
  }
  i64 flops() const {
    const i64 pairs = scores.q.size(0) * scores.q.size(1) * scores.q.size(2) * scores.k.size(2);
    return 2 * pairs * (scores.q.size(3) + v.size(3)) / (scores.causal ? 2 : 1);
  }
};
WT_CONTRACT(attention_forward, AttentionForwardArgs);

// With d(i, j) = keep ? keep_scale * sum gout[i, :] v[j, :] : 0 and D(i) = sum gout[i, :] out[i, :]
// (Dao et al. 2022, arXiv:2205.14135):
//   ds(i, j) = p(i, j) (d(i, j) - D(i))
//   gq[i, :] = scale sum_j ds(i, j) k[j, :]    gk[j, :] = scale sum_i ds(i, j) q[i, :]
//   gv[j, :] = sum_i p~(i, j) gout[i, :]
// gk and gv add up over the H / Hk heads that share a key. gq, gk, gv: of q's dtype and of the
// shapes of q, k, v, any strides without overlap. The order of the additions depends on the shapes
// alone.
struct AttentionBackwardArgs {
  View gq, gk, gv;
  View gout, out, lse;
  View v;
  AttentionScores scores;
  i64 bytes() const {
    return 2 * (gq.bytes() + gk.bytes() + gv.bytes()) + gout.bytes() + out.bytes();
  }
  i64 flops() const {
    const i64 pairs = scores.q.size(0) * scores.q.size(1) * scores.q.size(2) * scores.k.size(2);
    return 2 * pairs * (3 * scores.q.size(3) + 2 * v.size(3)) / (scores.causal ? 2 : 1);
  }
};
WT_CONTRACT(attention_backward, AttentionBackwardArgs);

}  // namespace wt
