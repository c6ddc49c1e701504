// The layers and stacks of "Attention is all you need" (Vaswani et al. 2017, arXiv:1706.03762).
#pragma once
#include <optional>

#include "warptape/core/misnamed.h"
#include "warptape/nn/attention.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/dropout.h"
#include "warptape/nn/norms.h"

namespace wt::nn {

// What stands between the two matrices of the feed-forward part: relu, or gelu (by erf).
enum class TransformerActivation : u8 { relu, gelu };
// What one layer of an encoder or a decoder is made of; PyTorch's names and defaults.
struct TransformerLayerOptions {
  i64 dim_feedforward = 2048;  // features between the two matrices of the feed-forward part
  double dropout = 0.1;        // of attention weights, hidden features and what is added, in [0, 1]
  // Of the feed-forward part.
  TransformerActivation activation = TransformerActivation::relu;
  double layer_norm_eps = 1e-5;  // of all norms
  bool batch_first = false;      // [N, L, E] instead of [L, N, E]
  bool norm_first = false;       // norms before attention and feed-forward, not after
  bool bias = true;              // of projections, matrices and norms
  DType dtype = DType::f32;      // of all parameters
};
// What the attention of an encoder leaves out; undefined masks leave out nothing.
// Masks mean what they mean for MultiheadAttention: true is where a key is NOT seen.
struct EncoderMasks {
  Tensor src_mask{};              // [L, L] or [N * heads, L, L]
  Tensor src_key_padding_mask{};  // [N, L], or [L] without samples
  bool is_causal = false;         // place i sees the places 0 .. i
};
// x + self-attention, x + feed-forward, each with its norm: PyTorch's layer of this name. src is
// [L, N, E], [N, L, E] with batch_first, or [L, E]. Throws ShapeError for sizes below 1, unless
// nhead divides d_model and for shapes that do not fit, UsageError for dropout outside [0, 1].
class WT_API TransformerEncoderLayer : public Module<TransformerEncoderLayer> {
 public:
  // For x of d_model features E, with nhead heads of E / nhead features.
  TransformerEncoderLayer(i64 d_model, i64 nhead, const TransformerLayerOptions& o = {});
  // [L, N, E] to [L, N, E], or in the other two forms.
  Tensor forward(Tensor src, const EncoderMasks& masks = {});
  // self_attn; the feed-forward part linear2(dropout(activation(linear1))); norm1 of the attention
  // and norm2 of the feed-forward part; dropout1 and dropout2 of what these two add.
  MultiheadAttention self_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2;
  Dropout dropout1, dropout2;

 private:
  Tensor attend(const Tensor& x, const EncoderMasks& masks);
  Tensor feed_forward(Tensor x);
  bool norm_first_;
  TransformerActivation activation_;
};

// What the attentions of a decoder leave out, as EncoderMasks: of tgt, length T, and of memory,
// length S.
struct DecoderMasks {
  Tensor tgt_mask{}, memory_mask{};  // [T, T] and [T, S], or N * heads of them
  Tensor tgt_key_padding_mask{}, memory_key_padding_mask{};  // [N, T] and [N, S]
  bool tgt_is_causal = false, memory_is_causal = false;      // place i sees the places 0 .. i
};
// x + self-attention, x + attention to `memory`, an encoder's output, x + feed-forward, each with
// its norm: PyTorch's layer of this name. Throws as TransformerEncoderLayer.
class WT_API TransformerDecoderLayer : public Module<TransformerDecoderLayer> {
 public:
  // For tgt and memory of d_model features E, with nhead heads of E / nhead features.
  TransformerDecoderLayer(i64 d_model, i64 nhead, const TransformerLayerOptions& o = {});
  // tgt [T, N, E] and memory [S, N, E] to [T, N, E]; samples first with batch_first, or without N.
  Tensor forward(Tensor tgt, const Tensor& memory, const DecoderMasks& masks = {});
  // self_attn to tgt and multihead_attn to memory; the feed-forward part
  // linear2(dropout(activation(linear1))); norm1, norm2 and norm3 of the three parts; dropout1,
  // dropout2 and dropout3 of what these add.
  MultiheadAttention self_attn, multihead_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout1, dropout2, dropout3;

 private:
  Tensor attend_self(const Tensor& x, const DecoderMasks& masks);
  Tensor attend_memory(const Tensor& x, const Tensor& memory, const DecoderMasks& masks);
  Tensor feed_forward(Tensor x);
  bool norm_first_;
  TransformerActivation activation_;
};

// What a stack has beside its layers.
struct TransformerStackOptions {
  bool norm = false;  // a LayerNorm after the last layer
};
// Layers of an encoder one after the other. Unlike PyTorch's, which are copies of one, each is
// initialised on its own.
class WT_API TransformerEncoder : public Module<TransformerEncoder> {
 public:
  // num_layers layers. Throws ShapeError for none, and what a layer throws.
  TransformerEncoder(i64 d_model, i64 nhead, i64 num_layers, const TransformerLayerOptions& o = {},
                     const TransformerStackOptions& stack = {});
  // [L, N, E] to [L, N, E]; all layers have the same masks.
  Tensor forward(Tensor src, const EncoderMasks& masks = {});
  // The `layers`, and the `norm` after the last one where the options want it.
  ModuleList<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};
// Layers of a decoder one after the other, each initialised on its own.
class WT_API TransformerDecoder : public Module<TransformerDecoder> {
 public:
  // num_layers layers. Throws ShapeError for none, and what a layer throws.
  TransformerDecoder(i64 d_model, i64 nhead, i64 num_layers, const TransformerLayerOptions& o = {},
                     const TransformerStackOptions& stack = {});
  // tgt [T, N, E] and memory [S, N, E] to [T, N, E]; all layers have the same masks.
  Tensor forward(Tensor tgt, const Tensor& memory, const DecoderMasks& masks = {});
  // The `layers`, and the `norm` after the last one where the options want it.
  ModuleList<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
};

// The sizes of a Transformer; the defaults are the paper's.
struct TransformerOptions {
  i64 d_model = 512, nhead = 8;  // features, and heads that they are parted to
  i64 num_encoder_layers = 6, num_decoder_layers = 6;  // at least 1 each
  TransformerLayerOptions layer{};                     // of all layers
  WT_MISNAMED_SAYS(dim_feedforward,
                   "it is a field of .layer: {.layer = {.dim_feedforward = 2048}}");
  WT_MISNAMED_SAYS(dropout, "it is a field of .layer: {.layer = {.dropout = 0.1}}");
  WT_MISNAMED_SAYS(batch_first, "it is a field of .layer: {.layer = {.batch_first = true}}");
};
// The masks of both stacks.
struct TransformerMasks {
  EncoderMasks encoder{};  // of src
  DecoderMasks decoder{};  // of tgt, and of memory, which is as long as src
};
// Encoder and decoder, each with its final norm: PyTorch's nn.Transformer. Matrices begin as
// xavier_uniform_.
class WT_API Transformer : public Module<Transformer> {
 public:
  // Throws what the stacks throw.
  explicit Transformer(const TransformerOptions& o = {});
  // src [S, N, E] and tgt [T, N, E] to [T, N, E]; samples first with batch_first, or without N.
  Tensor forward(Tensor src, const Tensor& tgt, const TransformerMasks& masks = {});
  // encoder makes the memory of src that decoder attends to.
  TransformerEncoder encoder;
  TransformerDecoder decoder;
};

}  // namespace wt::nn
