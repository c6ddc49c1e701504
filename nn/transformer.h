// The layers and stacks of "Attention is all you need" (Vaswani et al. 2017, arXiv:1706.03762).
#pragma once
#include <optional>

#include "warptape/core/misnamed.h"
#include "warptape/nn/attention.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/dropout.h"
#include "warptape/nn/norms.h"

namespace wt::nn {

enum class TransformerActivation : u8 { relu, gelu };
struct TransformerLayerOptions {
  i64 dim_feedforward = 2048;
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;  // [N, L, E] instead of [L, N, E]
  bool norm_first = false;   // norms before attention and feed-forward, not after
  bool bias = true;
  DType dtype = DType::f32;
};
// Masks mean what they mean for MultiheadAttention: true is where a key is NOT seen.
struct EncoderMasks {
  Tensor src_mask{};
  Tensor src_key_padding_mask{};
  bool is_causal = false;
};
// x + self-attention, x + feed-forward, each with its norm. src is [L, N, E], [N, L, E] with
// batch_first, or [L, E].
class WT_API TransformerEncoderLayer : public Module<TransformerEncoderLayer> {
 public:
  TransformerEncoderLayer(i64 d_model, i64 nhead, const TransformerLayerOptions& o = {});
  Tensor forward(Tensor src, const EncoderMasks& masks = {});
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

struct DecoderMasks {
  Tensor tgt_mask{}, memory_mask{};
  Tensor tgt_key_padding_mask{}, memory_key_padding_mask{};
  bool tgt_is_causal = false, memory_is_causal = false;
};
// The same with attention to `memory`, an encoder's output, between the two.
class WT_API TransformerDecoderLayer : public Module<TransformerDecoderLayer> {
 public:
  TransformerDecoderLayer(i64 d_model, i64 nhead, const TransformerLayerOptions& o = {});
  Tensor forward(Tensor tgt, const Tensor& memory, const DecoderMasks& masks = {});
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

struct TransformerStackOptions {
  bool norm = false;  // a LayerNorm after the last layer
};
// Layers one after the other. Unlike PyTorch's, which are copies of one, each is initialised on its
// own.
class WT_API TransformerEncoder : public Module<TransformerEncoder> {
 public:
  TransformerEncoder(i64 d_model, i64 nhead, i64 num_layers, const TransformerLayerOptions& o = {},
                     const TransformerStackOptions& stack = {});
  Tensor forward(Tensor src, const EncoderMasks& masks = {});
  ModuleList<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};
class WT_API TransformerDecoder : public Module<TransformerDecoder> {
 public:
  TransformerDecoder(i64 d_model, i64 nhead, i64 num_layers, const TransformerLayerOptions& o = {},
                     const TransformerStackOptions& stack = {});
  Tensor forward(Tensor tgt, const Tensor& memory, const DecoderMasks& masks = {});
  ModuleList<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
};

struct TransformerOptions {
  i64 d_model = 512, nhead = 8;
  i64 num_encoder_layers = 6, num_decoder_layers = 6;
  TransformerLayerOptions layer{};
  WT_MISNAMED_SAYS(dim_feedforward,
                   "it is a field of .layer: {.layer = {.dim_feedforward = 2048}}");
  WT_MISNAMED_SAYS(dropout, "it is a field of .layer: {.layer = {.dropout = 0.1}}");
  WT_MISNAMED_SAYS(batch_first, "it is a field of .layer: {.layer = {.batch_first = true}}");
};
struct TransformerMasks {
  EncoderMasks encoder{};
  DecoderMasks decoder{};
};
// Encoder and decoder, each with its final norm. Matrices begin as xavier_uniform_.
class WT_API Transformer : public Module<Transformer> {
 public:
  explicit Transformer(const TransformerOptions& o = {});
  Tensor forward(Tensor src, const Tensor& tgt, const TransformerMasks& masks = {});
  TransformerEncoder encoder;
  TransformerDecoder decoder;
};

}  // namespace wt::nn
