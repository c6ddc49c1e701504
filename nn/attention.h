// Attention with several heads (Vaswani et al. 2017, arXiv:1706.03762).
#pragma once
#include "warptape/nn/linear.h"

namespace wt::nn {

// What a MultiheadAttention is made with, by PyTorch's names; E is the query's features.
struct MultiheadAttentionOptions {
  double dropout = 0;        // of the attention weights, in training
  bool bias = true;          // of the four projections
  i64 kdim = 0, vdim = 0;    // features of key and value; 0: those of the query
  bool batch_first = false;  // [N, L, E] instead of [L, N, E]
  DType dtype = DType::f32;  // of all parameters
};
// Masks and results of one call. Masks have PyTorch's meaning, which is the opposite of
// scaled_dot_product_attention's: bool, true where a key is NOT seen; or floating, in the query's
// dtype then, and added to the score.
struct AttentionCall {
  Tensor key_padding_mask{};         // [N, S], or [S] without samples
  bool need_weights = true;          // false is faster: no matrix of weights is made
  Tensor attn_mask{};                // [L, S] or [N * heads, L, S]
  bool average_attn_weights = true;  // over the heads
  bool is_causal = false;  // query i sees the keys 0 .. i; unlike PyTorch's, not only a hint
};
// What a MultiheadAttention gives.
struct AttentionResult {
  Tensor output;   // [L, N, E], as the query lies
  Tensor weights;  // [N, L, S], or [N, heads, L, S], after dropout; undefined without need_weights
};
// Attention with several heads: query [L, N, E], key [S, N, kdim], value [S, N, vdim] (or without
// N, or batch_first) are projected to `heads` heads of E / heads features; each attends, and
// out_proj puts them together again. State: in_proj_weight [3 E, E] (q_proj_weight, k_proj_weight,
// v_proj_weight where kdim or vdim differ), drawn as xavier_uniform_, in_proj_bias [3 E], zeros,
// and out_proj. A query that may see no key has weights of zeros, and gives what heads of zeros
// give (PyTorch: NaN with need_weights). Throws ShapeError unless heads divides E and all shapes
// fit, DtypeError for other masks.
class WT_API MultiheadAttention : public Module<MultiheadAttention> {
 public:
  // embed_dim is E, num_heads the number of heads. Throws ShapeError for sizes below 1 and unless
  // num_heads divides embed_dim, UsageError for a dropout outside [0, 1].
  MultiheadAttention(i64 embed_dim, i64 num_heads, const MultiheadAttentionOptions& o = {},
                     const CallLine& = {});
  // query [L, N, E], key [S, N, kdim] and value [S, N, vdim] to output [L, N, E] and weights [N, L,
  // S]; one tensor given as all three is projected by one product.
  AttentionResult forward(Tensor query, const Tensor& key, const Tensor& value,
                          const AttentionCall& call = {});
  // in_proj_weight [3 E, E], or else q_proj_weight [E, E], k_proj_weight [E, kdim] and
  // v_proj_weight [E, vdim]: what is not used is undefined. in_proj_bias is [3 E], undefined
  // without bias; out_proj projects the joined heads, E to E.
  Param in_proj_weight;
  Param q_proj_weight;
  Param k_proj_weight;
  Param v_proj_weight;
  Param in_proj_bias;
  Linear out_proj;

 private:
  struct Projected {
    Tensor q, k, v;  // [N, heads, L or S, E / heads]
  };
  Projected project(const Tensor& query, const Tensor& key, const Tensor& value);
  Tensor heads_of(const Tensor& x) const;
  void check_inputs(const Tensor& query, const Tensor& key, const Tensor& value) const;

  i64 embed_dim_, heads_, kdim_, vdim_;
  double dropout_;
  bool batch_first_;
};

}  // namespace wt::nn
