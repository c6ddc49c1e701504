// The vision transformer (Dosovitskiy et al. 2021, arXiv:2010.11929) with the names and beginnings
// of timm's VisionTransformer: its weights load as they are.
#pragma once
#include "warptape/core/misnamed.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/conv.h"
#include "warptape/nn/dropout.h"
#include "warptape/nn/linear.h"
#include "warptape/nn/norms.h"

namespace wt::models {

// The sizes of a VisionTransformer; the defaults are ViT-S/16's.
struct VitOptions {
  i64 classes = 1000;                          // of the logits
  i64 in_channels = 3;                         // of the images
  i64 image_size = 224, patch = 16;            // pixels on a side
  i64 channels = 384, layers = 12, heads = 6;  // features of a token, blocks, heads of each
  i64 mlp_ratio = 4;   // hidden features of a block's MLP, times the channels
  double dropout = 0;  // of what blocks add
  WT_MISNAMED(num_classes, classes);
  WT_MISNAMED(img_size, image_size);
  WT_MISNAMED(patch_size, patch);
  WT_MISNAMED(embed_dim, channels);
  WT_MISNAMED(depth, layers);
  WT_MISNAMED(num_heads, heads);
};

// An image cut into patches, each made a token by one matrix: a convolution whose stride is its
// kernel.
class WT_API VitPatches : public nn::Module<VitPatches> {
 public:
  // Uses in_channels, channels and patch.
  explicit VitPatches(const VitOptions& o);
  // [N, in_channels, H, W] to [N, patches, channels], row by row.
  Tensor forward(Tensor x);
  // The convolution [channels, in_channels, patch, patch], with a bias.
  nn::Conv2d proj;
};

// Self-attention of all tokens to all, without a mask or dropout of its weights.
class WT_API VitAttention : public nn::Module<VitAttention> {
 public:
  // Uses channels, heads and dropout.
  explicit VitAttention(const VitOptions& o);
  // [N, tokens, channels] to the same shape.
  Tensor forward(Tensor x);
  // qkv [3 channels, channels] makes queries, keys and values; proj puts the heads together again,
  // and proj_drop is the dropout of that.
  nn::Linear qkv, proj;
  nn::Dropout proj_drop;

 private:
  i64 heads_;
};

// The feed-forward part of a block: drop(fc2(drop(gelu(fc1(x))))).
class WT_API VitMlp : public nn::Module<VitMlp> {
 public:
  // Uses channels, mlp_ratio and dropout.
  explicit VitMlp(const VitOptions& o);
  // [N, tokens, channels] to the same shape.
  Tensor forward(Tensor x);
  // fc1 to mlp_ratio * channels features, fc2 back; drop is after both.
  nn::Linear fc1, fc2;
  nn::Dropout drop;
};

// x + attn(norm1(x)), then x + mlp(norm2(x)).
class WT_API VitBlock : public nn::Module<VitBlock> {
 public:
  // Uses channels, heads, mlp_ratio and dropout.
  explicit VitBlock(const VitOptions& o);
  // [N, tokens, channels] to the same shape.
  Tensor forward(Tensor x);
  // norm1 and attn, norm2 and mlp. The norms' eps is 1e-6.
  nn::LayerNorm norm1;
  VitAttention attn;
  nn::LayerNorm norm2;
  VitMlp mlp;
};

// Images [N, in_channels, image_size, image_size] to logits [N, classes], from the class token.
// Throws ShapeError for pictures of another size, and unless the patch divides the picture's side
// and heads the channels.
class WT_API VisionTransformer : public nn::Module<VisionTransformer> {
 public:
  // Weights of Linear layers and pos_embed begin as trunc_normal_ of deviation 0.02, biases of
  // these layers as zeros, cls_token as normal_ of deviation 1e-6.
  explicit VisionTransformer(const VitOptions& o = {});
  // [N, in_channels, image_size, image_size] to logits [N, classes].
  Tensor forward(Tensor x);
  nn::Param cls_token;  // [1, 1, channels]
  nn::Param pos_embed;  // [1, 1 + patches, channels]
  // patch_embed makes the tokens, blocks change them, norm is after the last block, and head makes
  // the logits of the class token.
  VitPatches patch_embed;
  nn::ModuleList<VitBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;

 private:
  Shape picture_;  // of one
};

// ViT-S/16, untrained: timm's vit_small_patch16_224. The options are taken as they are.
WT_API VisionTransformer vit_small_patch16_224(const VitOptions& o = {});

}  // namespace wt::models
