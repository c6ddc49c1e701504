// GPT-2 (Radford et al. 2019) with the names, layout and beginnings of Hugging Face's
// GPT2LMHeadModel:
//
//   auto net = models::gpt2();
//   net.load_state_dict(models::gpt2_state(nn::load_tensors("model.safetensors").tensors));
//   Tensor logits = net(ids);                          // i64 [N, T] -> [N, T, 50257]
#pragma once
#include <vector>

#include "warptape/core/misnamed.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/dropout.h"
#include "warptape/nn/embedding.h"
#include "warptape/nn/linear.h"
#include "warptape/nn/norms.h"

namespace wt::models {

class KvCache;  // nn/kv_cache.h

struct Gpt2Options {
  i64 vocabulary = 50257;
  i64 context = 1024;  // the most tokens in a row
  i64 channels = 768, layers = 12, heads = 12;
  double dropout = 0.1;  // of embeddings, attention weights and what each block adds
  // Rows of the table are made up to a multiple of this: 64 or 128 suits tensor cores. Logits are
  // those of the vocabulary all the same.
  i64 pad_vocabulary_to = 1;
  WT_MISNAMED(vocab_size, vocabulary);
  WT_MISNAMED(n_positions, context);
  WT_MISNAMED(block_size, context);
  WT_MISNAMED(n_embd, channels);
  WT_MISNAMED(n_layer, layers);
  WT_MISNAMED(n_head, heads);
};

// y = x W + b with W [in, out], which is how GPT-2's files have it: nn::Linear's is transposed. W
// is read where it lies. Begins as N(0, 0.02^2) and zeros.
class WT_API TransposedLinear : public nn::Module<TransposedLinear> {
 public:
  TransposedLinear(i64 in, i64 out);
  Tensor forward(Tensor x);
  nn::Param weight, bias;
};

// Attention to the tokens before and the token itself. With a cache, here and below: x are the
// tokens of a step that it has begun with, which also see those that it keeps of this `layer`.
class WT_API Gpt2Attention : public nn::Module<Gpt2Attention> {
 public:
  explicit Gpt2Attention(const Gpt2Options& o);
  Tensor forward(Tensor x, KvCache* cache = nullptr, i64 layer = 0);
  TransposedLinear c_attn, c_proj;
  nn::Dropout resid_dropout;

 private:
  i64 heads_;
  double dropout_;
};

class WT_API Gpt2Mlp : public nn::Module<Gpt2Mlp> {
 public:
  explicit Gpt2Mlp(const Gpt2Options& o);
  Tensor forward(Tensor x);
  TransposedLinear c_fc, c_proj;
  nn::Dropout dropout;
};

class WT_API Gpt2Block : public nn::Module<Gpt2Block> {
 public:
  explicit Gpt2Block(const Gpt2Options& o);
  Tensor forward(Tensor x, KvCache* cache = nullptr, i64 layer = 0);
  nn::LayerNorm ln_1;
  Gpt2Attention attn;
  nn::LayerNorm ln_2;
  Gpt2Mlp mlp;
};

// Tokens, i64 or i32 [N, T], to their last hidden states [N, T, channels]. Throws ShapeError for
// other ranks and for T beyond the context, IndexError for ids beyond the table.
class WT_API Gpt2Body : public nn::Module<Gpt2Body> {
 public:
  explicit Gpt2Body(const Gpt2Options& o);
  Tensor forward(Tensor ids, KvCache* cache = nullptr);
  nn::Embedding wte, wpe;
  nn::Dropout drop;
  nn::ModuleList<Gpt2Block> h;
  nn::LayerNorm ln_f;

 private:
  i64 context_;
};

// Tokens to logits [N, T, vocabulary]. The head's weight is the table of tokens. What a block adds
// begins smaller by sqrt(2 layers). Throws what Gpt2Body throws, ShapeError unless heads divides
// channels.
class WT_API Gpt2 : public nn::Module<Gpt2> {
 public:
  explicit Gpt2(const Gpt2Options& o = {});
  Tensor forward(Tensor ids);
  // After the last of each row's tokens of a step that the cache has begun with: [N, vocabulary].
  Tensor next_logits(const Tensor& ids, KvCache& cache);
  const Gpt2Options& options() const { return o_; }
  Gpt2Body transformer;
  nn::Linear lm_head;

 private:
  Tensor head(Tensor x);
  Gpt2Options o_;
};

// 124 million parameters, and 355 million.
WT_API Gpt2 gpt2(const Gpt2Options& o = {});
WT_API Gpt2 gpt2_medium(Gpt2Options o = {});

// A state as a model of these options takes it. Files on the Hub have the body alone, without
// "transformer.", and the masks as buffers: names get the prefix, masks are left out. The table
// gets rows of zeros up to the padded vocabulary. What else does not fit load_state_dict() says.
WT_API std::vector<nn::NamedTensor> gpt2_state(const std::vector<nn::NamedTensor>& state,
                                               const Gpt2Options& o = {});

}  // namespace wt::models
