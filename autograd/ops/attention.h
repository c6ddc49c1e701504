// Attention and what belongs to it.
#pragma once
#include <optional>

#include "warptape/core/in.h"
#include "warptape/core/misnamed.h"

namespace wt {

struct AttentionOptions {
  bool causal = false;            // query i sees the keys 0 .. i
  double dropout_p = 0;           // of the weights; whether to train is the caller's business
  std::optional<double> scale{};  // 1 / sqrt(E) when not given
  bool enable_gqa = false;        // fewer heads of keys and values than of queries are allowed
  WT_MISNAMED(is_causal, causal);
  WT_MISNAMED_SAYS(attn_mask, "the mask is an argument before the options");
};
// softmax(query key^T * scale + mask) value over the keys. query [.., L, E], key [.., S, E], value
// [.., S, Ev] with equal leading axes (none, heads, or batch and heads) give [.., L, Ev]. With
// enable_gqa the last leading axis, the heads, of key and value divides that of query: neighbouring
// query heads share one (Ainslie et al. 2023, arXiv:2305.13245). attn_mask broadcasts to
// [.., L, S]: bool, true where a key may be seen, or of query's dtype, added to the scores. A query
// that may see no key gives zeros. Dropout draws from the generator's dropout stream by logical
// element of [.., L, S].
//
// One dtype of f64 f32 f16 bf16; 16 bits compute in f32. On the cpu no matrix of scores is kept:
// the backward computes blocks of it again (Dao et al. 2022, arXiv:2205.14135) and keeps one number
// a query; a mask that wants a gradient, higher derivatives, and devices without such a kernel take
// the chain of operators, which keeps the scores. Throws ShapeError, DtypeError, UsageError.
WT_API Tensor scaled_dot_product_attention(const In& query, const In& key, const In& value,
                                           const AttentionOptions& options = {});
WT_API Tensor scaled_dot_product_attention(const In& query, const In& key, const In& value,
                                           const In& attn_mask,
                                           const AttentionOptions& options = {});

struct RotaryOptions {
  double base = 10000;
  bool interleaved = false;  // pairs are neighbours (2i, 2i + 1); else (i, i + E / 2)
  i64 offset = 0;            // the position of the first row, when no positions are given
};
// Rotary position embedding (Su et al. 2021, arXiv:2104.09864) of x [.., T, E], E even: the pair i
// of the row at position p is turned by the angle p * base^(-2 i / E). Positions are offset, offset
// + 1,
// ..., or an i64 or i32 tensor that broadcasts to x's axes but the last, e.g. [T]. Any strides,
// floats that compute; the angles are taken in f64. Throws ShapeError, DtypeError, and UsageError
// unless base > 0.
WT_API Tensor rotary_embedding(const In& x, const RotaryOptions& options = {});
WT_API Tensor rotary_embedding(const In& x, const In& positions, const RotaryOptions& options = {});

}  // namespace wt
