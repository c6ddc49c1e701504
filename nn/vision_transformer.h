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

struct VitOptions {
  i64 classes = 1000;
  i64 in_channels = 3;
  i64 image_size = 224, patch = 16;  // pixels on a side
  i64 channels = 384, layers = 12, heads = 6;
  i64 mlp_ratio = 4;   // hidden features of a block's MLP, times the channels
  double dropout = 0;  // of what blocks add
  WT_MISNAMED(num_classes, classes);
  WT_MISNAMED(img_size, image_size);
  WT_MISNAMED(patch_size, patch);
  WT_MISNAMED(embed_dim, channels);
  WT_MISNAMED(depth, layers);
  WT_MISNAMED(num_heads, heads);
};

// [N, C, H, W] to [N, patches, channels], row by row.
class WT_API VitPatches : public nn::Module<VitPatches> {
 public:
  explicit VitPatches(const VitOptions& o);
  Tensor forward(Tensor x);
  nn::Conv2d proj;
};

class WT_API VitAttention : public nn::Module<VitAttention> {
 public:
  explicit VitAttention(const VitOptions& o);
  Tensor forward(Tensor x);
  nn::Linear qkv, proj;
  nn::Dropout proj_drop;

 private:
  i64 heads_;
};

class WT_API VitMlp : public nn::Module<VitMlp> {
 public:
  explicit VitMlp(const VitOptions& o);
  Tensor forward(Tensor x);
  nn::Linear fc1, fc2;
  nn::Dropout drop;
};

class WT_API VitBlock : public nn::Module<VitBlock> {
 public:
  explicit VitBlock(const VitOptions& o);
  Tensor forward(Tensor x);
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
  explicit VisionTransformer(const VitOptions& o = {});
  Tensor forward(Tensor x);
  nn::Param cls_token;  // [1, 1, channels]
  nn::Param pos_embed;  // [1, 1 + patches, channels]
  VitPatches patch_embed;
  nn::ModuleList<VitBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;

 private:
  Shape picture_;  // of one
};

// ViT-S/16: timm's vit_small_patch16_224.
WT_API VisionTransformer vit_small_patch16_224(const VitOptions& o = {});

}  // namespace wt::models
