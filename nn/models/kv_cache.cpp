#include "warptape/nn/kv_cache.h"

#include <algorithm>

#include "warptape/autograd/ops/attention.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/str.h"

namespace wt::models {

KvCache::KvCache(const KvCacheSize& size, i64 batch, const TensorOptions& o)
    : context_(size.context) {
  const Shape shape{size.layers, batch, size.heads, size.context, size.channels};
  for (const i64 n : shape)
    if (n < 0) throw UsageError(str("[KvCache] sizes below 0: ", shape));
  lengths_.assign(size_t(batch), 0);
  keys = zeros(shape, o);
  values = zeros(shape, o);
  places_ = arange(size.context, {.dtype = DType::i64, .device = keys.device()});
}

void KvCache::check_row(i64 row) const {
  if (row < 0 || row >= i64(lengths_.size()))
    throw IndexError(str("[KvCache] row ", row, " of ", lengths_.size(), at_line()));
}

KvCache KvCache::row(i64 row) const {
  check_row(row);
  KvCache one;
  one.context_ = context_;
  one.lengths_ = {lengths_[size_t(row)]};
  one.places_ = places_;
  one.keys = slice(keys, 1, {row, row + 1});
  one.values = slice(values, 1, {row, row + 1});
  return one;
}

void KvCache::take_length(i64 row, const KvCache& of) {
  check_row(row), of.check_row(0);
  lengths_[size_t(row)] = of.lengths_[0];
}

void KvCache::clear() { std::fill(lengths_.begin(), lengths_.end(), 0); }

namespace {

// Why the counts are none that begin() takes; empty: they are.
std::string wrong_counts(i64 tokens, const std::vector<i64>& counts,
                         const std::vector<i64>& lengths) {
  if (tokens < 1) return str("a step needs a token, got ", tokens);
  if (counts.size() != lengths.size())
    return str("counts of ", counts.size(), " rows, the cache has ", lengths.size());
  const bool empty = std::all_of(lengths.begin(), lengths.end(), [](i64 n) { return n == 0; });
  for (size_t i = 0; i < counts.size(); ++i) {
    const bool fewer = tokens == 1 ? counts[i] == 0 : empty && counts[i] >= 1;
    if (counts[i] != tokens && !(fewer && counts[i] < tokens))
      return str("row ", i, " cannot take ", counts[i], " of ", tokens, " tokens after ",
                 lengths[i]);
  }
  return {};
}

}  // namespace

void KvCache::begin(i64 tokens, std::vector<i64> counts) {
  if (counts.empty()) counts.assign(lengths_.size(), tokens);
  if (const std::string why = wrong_counts(tokens, counts, lengths_); !why.empty())
    throw UsageError("[KvCache] " + why);
  std::string full;
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0 && lengths_[i] + tokens > context_)
      full += str(full.empty() ? "" : ", ", "row ", i, " has ", lengths_[i], " and gets ", tokens);
  if (!full.empty())
    throw ShapeError(str("[KvCache] more tokens than the context of ", context_, ": ", full));
  // A row that stays as it is may be full: what it computes and nobody reads is then about its last
  // token, which is not written over. Others have room behind their tokens.
  std::vector<i64> first = lengths_, written;
  for (i64& at : first) at = std::min(at, context_ - tokens);
  for (size_t i = 0; i < counts.size(); ++i)
    if (first[i] == lengths_[i]) written.push_back(i64(i));
  const bool all = written.size() == counts.size();
  even_ =
      all && std::adjacent_find(first.begin(), first.end(), std::not_equal_to<>()) == first.end();
  const i64 longest = first.empty() ? 0 : *std::max_element(first.begin(), first.end());
  tokens_ = tokens, counts_ = std::move(counts), seen_ = longest + tokens;
  mask_ = rows_ = written_ = Tensor();
  if (!all) written_ = tensor(written, {.dtype = DType::i64, .device = places_.device()});
  if (even_) {
    positions_ = slice(places_, 0, {longest, seen_});
  } else {
    const TensorOptions o{.dtype = DType::i64, .device = places_.device()};
    positions_ = add(unsqueeze(tensor(first, o), 1), slice(places_, 0, {0, tokens}));
    rows_ = unsqueeze(arange(batch(), o), 1);
  }
  if (!even_ || (tokens > 1 && longest > 0)) {
    const i64 n = even_ ? 1 : batch();
    mask_ = le(slice(places_, 0, {0, seen_}), reshape(positions_, {n, 1, tokens, 1}));
  }
}

void KvCache::end() {
  for (size_t i = 0; i < counts_.size(); ++i) lengths_[i] += counts_[i];
  counts_.clear();
}

// Part [batch, heads, tokens, channels] to its places in [batch, heads, context, channels].
void KvCache::keep(const Tensor& to, const Tensor& part) const {
  if (even_) {
    slice(to, 2, {seen_ - tokens_, seen_}).copy_(part);
    return;
  }
  const auto kept = [&](const Tensor& of) {
    return written_.defined() ? index_select(of, 0, written_) : of;
  };
  if (written_.defined() && written_.numel() == 0) return;
  transpose(to, 1, 2).index_put_({kept(rows_), kept(positions_)}, kept(transpose(part, 1, 2)));
}

Tensor KvCache::attend(i64 layer, const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor all_k = select(keys, 0, layer), all_v = select(values, 0, layer);
  keep(all_k, k);
  keep(all_v, v);
  if (seen_ == tokens_) return scaled_dot_product_attention(q, k, v, {.causal = true});
  const Tensor seen_k = slice(all_k, 2, {0, seen_}), seen_v = slice(all_v, 2, {0, seen_});
  return mask_.defined() ? scaled_dot_product_attention(q, seen_k, seen_v, mask_)
                         : scaled_dot_product_attention(q, seen_k, seen_v);
}

Tensor KvCache::last(const Tensor& x) const {
  const bool all = std::all_of(counts_.begin(), counts_.end(),
                               [&](i64 n) { return n == tokens_ || tokens_ == 1; });
  if (all) return select(x, 1, tokens_ - 1);
  std::vector<i64> at, rows;
  for (const i64 n : counts_) rows.push_back(i64(rows.size())), at.push_back(n - 1);
  const TensorOptions o{.dtype = DType::i64, .device = x.device()};
  return index(x, {tensor(rows, o), tensor(at, o)});
}

}  // namespace wt::models
