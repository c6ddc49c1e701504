#include "warptape/nn/seq2seq_decoder.h"

#include <numeric>

#include "warptape/autograd/ops/attention.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"

namespace wt::models {
namespace {

bool is_identity(std::span<const i64> rows, size_t count) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i] != i64(i)) return false;
  return rows.size() == count;
}

// Queries (0), or keys and values (1, 2), as in_proj_weight has them one below the other.
Tensor project(const nn::MultiheadAttention& a, const Tensor& x, i64 first, i64 count) {
  const i64 e = x.size(-1);
  return linear(x, slice(a.in_proj_weight, 0, {first * e, (first + count) * e}),
                slice(a.in_proj_bias, 0, {first * e, (first + count) * e}));
}

Tensor rows_of(const Tensor& x, std::span<const i64> rows) {
  const Tensor index =
      tensor(std::vector<i64>(rows.begin(), rows.end()), {.device = Device::cpu()});
  return index_select(x, 0, index.to(x.device()));
}

// [R, heads, 1 or S, E / heads] to [R, 1 or S, E].
Tensor joined(const Tensor& y) {
  return reshape(transpose(y, 1, 2), {y.size(0), y.size(2), y.size(1) * y.size(3)});
}

}  // namespace

Tensor Seq2SeqDecoder::heads_of(const Tensor& x) const {
  const i64 heads = net_.options().heads;
  return transpose(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), 1, 2);
}

Seq2SeqDecoder::Seq2SeqDecoder(const Seq2Seq& net, const Tensor& source) : net_(net) {
  const NoGrad no_grad;
  const nn::EvalScope eval(net_);
  const Tensor memory = net_.encode(source);
  if (const auto padding = net_.options().padding)
    seen_ = unsqueeze(unsqueeze(ne(source, *padding), 1), 1);
  sentences_.resize(size_t(source.size(0)));
  std::iota(sentences_.begin(), sentences_.end(), 0);
  for (nn::TransformerDecoderLayer& layer : net_.transformer.decoder.layers) {
    const std::vector<Tensor> kv =
        split(project(layer.multihead_attn, memory, 1, 2), memory.size(-1), 2);
    layers_.push_back({.keys = {},
                       .values = {},
                       .source_keys = heads_of(kv[0]),
                       .source_values = heads_of(kv[1])});
  }
}

void Seq2SeqDecoder::check(std::span<const i64> tokens, std::span<const i64> rows) const {
  if (tokens.size() != rows.size() || rows.empty())
    throw UsageError(str("[Seq2SeqDecoder] ", tokens.size(), " tokens for ", rows.size(),
                         " rows: one for each, at least one", at_line()));
  for (const i64 r : rows)
    if (r < 0 || r >= i64(sentences_.size()))
      throw IndexError(
          str("[Seq2SeqDecoder] row ", r, " is outside [0, ", sentences_.size(), ")", at_line()));
  const i64 vocabulary = net_.options().target_vocabulary;
  for (const i64 t : tokens)
    if (t < 0 || t >= vocabulary)
      throw IndexError(
          str("[Seq2SeqDecoder] token ", t, " is outside [0, ", vocabulary, ")", at_line()));
  if (length_ >= net_.options().longest)
    throw ShapeError(str("[Seq2SeqDecoder] ", length_ + 1, " tokens in a row are more than the ",
                         net_.options().longest, " places there are", at_line()));
}

// What belongs to a source is the same for all rows that go on from it: it is copied where another
// source's row comes into a row's place, so not while all sentences go on.
void Seq2SeqDecoder::take_rows(std::vector<Layer>& layers, Tensor& seen,
                               std::span<const i64> rows) const {
  std::vector<i64> sentences;
  for (const i64 r : rows) sentences.push_back(sentences_[size_t(r)]);
  const bool other_sentences = sentences != sentences_;
  const bool other_rows = !is_identity(rows, sentences_.size());
  for (Layer& l : layers) {
    if (other_rows && l.keys.defined())
      l.keys = rows_of(l.keys, rows), l.values = rows_of(l.values, rows);
    if (other_sentences) {
      l.source_keys = rows_of(l.source_keys, rows);
      l.source_values = rows_of(l.source_values, rows);
    }
  }
  if (other_sentences && seen.defined()) seen = rows_of(seen, rows);
}

Tensor Seq2SeqDecoder::attend_self(nn::MultiheadAttention& a, Layer& l, const Tensor& x) const {
  const std::vector<Tensor> qkv = split(project(a, x, 0, 3), x.size(-1), 2);
  const Tensor k = heads_of(qkv[1]), v = heads_of(qkv[2]);
  l.keys = l.keys.defined() ? cat({l.keys, k}, 2) : k;
  l.values = l.values.defined() ? cat({l.values, v}, 2) : v;
  return a.out_proj(joined(scaled_dot_product_attention(heads_of(qkv[0]), l.keys, l.values)));
}

Tensor Seq2SeqDecoder::attend_source(nn::MultiheadAttention& a, const Layer& l, const Tensor& seen,
                                     const Tensor& x) const {
  const Tensor q = heads_of(project(a, x, 0, 1));
  return a.out_proj(
      joined(seen.defined() ? scaled_dot_product_attention(q, l.source_keys, l.source_values, seen)
                            : scaled_dot_product_attention(q, l.source_keys, l.source_values)));
}

Tensor Seq2SeqDecoder::next(std::span<const i64> tokens, std::span<const i64> rows) {
  check(tokens, rows);
  const NoGrad no_grad;
  const nn::EvalScope eval(net_);
  std::vector<Layer> layers = layers_;
  Tensor seen = seen_;
  take_rows(layers, seen, rows);
  const Tensor ids =
      tensor(std::vector<i64>(tokens.begin(), tokens.end()), {.device = Device::cpu()});
  const Tensor place = slice(net_.positional_encoding.pos_embedding, 0, {length_, length_ + 1});
  Tensor x = net_.tgt_tok_emb(reshape(ids, {i64(tokens.size()), 1}).to(place.device())) + place;
  size_t at = 0;
  for (nn::TransformerDecoderLayer& layer : net_.transformer.decoder.layers) {
    Layer& l = layers[at++];
    x = layer.norm1.of_sum(attend_self(layer.self_attn, l, x), x).y;
    x = layer.norm2.of_sum(attend_source(layer.multihead_attn, l, seen, x), x).y;
    x = layer.norm3.of_sum(layer.linear2(relu(layer.linear1(x))), x).y;
  }
  x = net_.generator((*net_.transformer.decoder.norm)(std::move(x)));
  std::vector<i64> sentences;
  for (const i64 r : rows) sentences.push_back(sentences_[size_t(r)]);
  sentences_ = std::move(sentences);
  layers_ = std::move(layers);
  seen_ = std::move(seen);
  ++length_;
  return select(std::move(x), 1, 0);
}

}  // namespace wt::models
