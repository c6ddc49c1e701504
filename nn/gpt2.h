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

// Sizes of the model; the defaults are those of the smallest GPT-2.
struct Gpt2Options {
  i64 vocabulary = 50257;                       // tokens; ids are below it
  i64 context = 1024;                           // the most tokens in a row
  i64 channels = 768, layers = 12, heads = 12;  // channels of a token; heads of a layer
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
  // `in` features to `out`. Throws ShapeError for negative sizes.
  TransposedLinear(i64 in, i64 out);
  // [.., in] to [.., out].
  Tensor forward(Tensor x);
  nn::Param weight, bias;  // [in, out] and [out]
};

// Attention to the tokens before and the token itself. With a cache, here and below: x are the
// tokens of a step that it has begun with, which also see those that it keeps of this `layer`.
class WT_API Gpt2Attention : public nn::Module<Gpt2Attention> {
 public:
  // Throws ShapeError unless o.heads divides o.channels.
  explicit Gpt2Attention(const Gpt2Options& o);
  // [N, T, channels] to the same shape.
  Tensor forward(Tensor x, KvCache* cache = nullptr, i64 layer = 0);
  TransposedLinear c_attn, c_proj;  // to queries, keys and values; of the joined heads
  nn::Dropout resid_dropout;        // of the result

 private:
  i64 heads_;
  double dropout_;
};

// To four times the channels, GELU by tanh, and back: the other half of a block.
class WT_API Gpt2Mlp : public nn::Module<Gpt2Mlp> {
 public:
  // Of the options channels and dropout count.
  explicit Gpt2Mlp(const Gpt2Options& o);
  // [N, T, channels] to the same shape.
  Tensor forward(Tensor x);
  TransposedLinear c_fc, c_proj;  // to the wide layer, and back
  nn::Dropout dropout;            // of the result
};

// A layer: x + attn(ln_1(x)), to which mlp(ln_2(of it)) is added.
class WT_API Gpt2Block : public nn::Module<Gpt2Block> {
 public:
  // Throws ShapeError unless o.heads divides o.channels.
  explicit Gpt2Block(const Gpt2Options& o);
  // [N, T, channels] to the same shape.
  Tensor forward(Tensor x, KvCache* cache = nullptr, i64 layer = 0);
  // ln_1 before attn, ln_2 before mlp.
  nn::LayerNorm ln_1;
  Gpt2Attention attn;
  nn::LayerNorm ln_2;
  Gpt2Mlp mlp;
};

// All but the head: tokens, i64 or i32 [N, T], to their last hidden states [N, T, channels]. Throws
// ShapeError for other ranks and for T beyond the context, IndexError for ids beyond the table.
class WT_API Gpt2Body : public nn::Module<Gpt2Body> {
 public:
  // Throws ShapeError for vocabulary, context, channels or pad_vocabulary_to below 1, and unless
  // o.heads divides o.channels.
  explicit Gpt2Body(const Gpt2Options& o);
  // [N, T] to [N, T, channels].
  Tensor forward(Tensor ids, KvCache* cache = nullptr);
  nn::Embedding wte, wpe;       // of tokens and of their places, added up
  nn::Dropout drop;             // of that sum
  nn::ModuleList<Gpt2Block> h;  // the layers
  nn::LayerNorm ln_f;           // behind the last of them

 private:
  i64 context_;
};

// The whole model: tokens to logits [N, T, vocabulary]. The head's weight is the table of tokens.
// What a block adds begins smaller by sqrt(2 layers). Throws what Gpt2Body throws, ShapeError
// unless heads divides channels.
class WT_API Gpt2 : public nn::Module<Gpt2> {
 public:
  // Weights begin as N(0, 0.02^2), biases as zeros. Throws ShapeError as Gpt2Body.
  explicit Gpt2(const Gpt2Options& o = {});
  // i64 or i32 [N, T] to [N, T, vocabulary].
  Tensor forward(Tensor ids);
  // Logits after the last of each row's tokens of a step that the cache has begun with: [N,
  // vocabulary].
  Tensor next_logits(const Tensor& ids, KvCache& cache);
  // What it was made with.
  const Gpt2Options& options() const { return o_; }
  Gpt2Body transformer;  // all but the head
  nn::Linear lm_head;    // without bias; its weight is transformer.wte's

 private:
  Tensor head(Tensor x);
  Gpt2Options o_;
};

// gpt2 has 124 million parameters, gpt2_medium 355 million: 24 layers of 1024 channels and 16 heads
// whatever the options say of these.
WT_API Gpt2 gpt2(const Gpt2Options& o = {});
WT_API Gpt2 gpt2_medium(Gpt2Options o = {});

// A state as a model of these options takes it. Files on the Hub have the body alone, without
// "transformer.", and the masks as buffers: names get the prefix, masks are left out. The table
// gets rows of zeros up to the padded vocabulary. What else does not fit load_state_dict() says.
WT_API std::vector<nn::NamedTensor> gpt2_state(const std::vector<nn::NamedTensor>& state,
                                               const Gpt2Options& o = {});

}  // namespace wt::models
