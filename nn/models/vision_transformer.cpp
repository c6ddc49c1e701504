#include "warptape/nn/vision_transformer.h"

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/attention.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/nn/init.h"
#include "warptape/nn/make_parameter.h"

namespace wt::models {
namespace {

constexpr double kVitEps = 1e-6;
constexpr double kVitStd = 0.02;

nn::LayerNorm vit_norm(const VitOptions& o) { return nn::LayerNorm{o.channels, {.eps = kVitEps}}; }

// Checked before anything is made of them.
i64 tokens_of(const VitOptions& o) {
  if (o.patch < 1 || o.image_size < 1 || o.image_size % o.patch != 0)
    throw ShapeError(str("[VisionTransformer] patches of ", o.patch, " pixels do not divide ",
                         o.image_size, " pixels", at_line()));
  if (o.heads < 1 || o.channels % o.heads != 0)
    throw ShapeError(str("[VisionTransformer] ", o.heads, " heads do not divide ", o.channels,
                         " channels", at_line()));
  const i64 side = o.image_size / o.patch;
  return 1 + side * side;
}

}  // namespace

VitPatches::VitPatches(const VitOptions& o)
    : proj(add("proj",
               nn::Conv2d{o.in_channels, o.channels, {.kernel = o.patch, .stride = o.patch}})) {}
Tensor VitPatches::forward(Tensor x) { return proj(std::move(x)).flatten(2).transpose(1, 2); }

VitAttention::VitAttention(const VitOptions& o)
    : qkv(add("qkv", nn::Linear{o.channels, 3 * o.channels})),
      proj(add("proj", nn::Linear{o.channels, o.channels})),
      proj_drop(add("proj_drop", nn::Dropout{o.dropout})),
      heads_(o.heads) {}

Tensor VitAttention::forward(Tensor x) {
  const i64 n = x.size(0), t = x.size(1), channels = x.size(2);
  const std::vector<Tensor> parts = chunk(qkv(std::move(x)), 3, -1);
  const auto heads = [&](const Tensor& part) {
    return part.reshape({n, t, heads_, channels / heads_}).transpose(1, 2);
  };
  Tensor y = scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]));
  return proj_drop(proj(std::move(y).transpose(1, 2).reshape({n, t, channels})));
}

VitMlp::VitMlp(const VitOptions& o)
    : fc1(add("fc1", nn::Linear{o.channels, o.mlp_ratio * o.channels})),
      fc2(add("fc2", nn::Linear{o.mlp_ratio * o.channels, o.channels})),
      drop(add("drop", nn::Dropout{o.dropout})) {}

Tensor VitMlp::forward(Tensor x) { return drop(fc2(drop(gelu(fc1(std::move(x)))))); }

VitBlock::VitBlock(const VitOptions& o)
    : norm1(add("norm1", vit_norm(o))),
      attn(add("attn", VitAttention{o})),
      norm2(add("norm2", vit_norm(o))),
      mlp(add("mlp", VitMlp{o})) {}

Tensor VitBlock::forward(Tensor x) {
  AddNormResult r = norm2.of_sum(attn(norm1(x)), x);
  return mlp(std::move(r.y)) + r.sum;
}

VisionTransformer::VisionTransformer(const VitOptions& o)
    : cls_token(add("cls_token", nn::detail::make_parameter({1, 1, o.channels}, DType::f32))),
      pos_embed(
          add("pos_embed", nn::detail::make_parameter({1, tokens_of(o), o.channels}, DType::f32))),
      patch_embed(add("patch_embed", VitPatches{o})),
      blocks(add("blocks", nn::ModuleList<VitBlock>(o.layers, [&] { return VitBlock{o}; }))),
      norm(add("norm", vit_norm(o))),
      head(add("head", nn::Linear{o.channels, o.classes})),
      picture_{o.in_channels, o.image_size, o.image_size} {
  nn::init::normal_(cls_token, 0, 1e-6);
  nn::init::trunc_normal_(pos_embed, 0, kVitStd);
  apply([](const nn::ModuleBase& m) {
    if (m.type() != "Linear") return;
    nn::init::trunc_normal_(m.parameter("weight"), 0, kVitStd);
    nn::init::zeros_(m.parameter("bias"));
  });
}

Tensor VisionTransformer::forward(Tensor x) {
  if (x.ndim() != 4 || x.size(1) != picture_[0] || x.size(2) != picture_[1] ||
      x.size(3) != picture_[2])
    throw ShapeError(str("[VisionTransformer] pictures must be [N, ", picture_[0], ", ",
                         picture_[1], ", ", picture_[2], "], got ", x.shape(), at_line()));
  x = patch_embed(std::move(x));
  x = cat({cls_token->expand({x.size(0), -1, -1}), x}, 1) + pos_embed;
  for (VitBlock& block : blocks) x = block(std::move(x));
  return head(select(norm(std::move(x)), 1, 0));
}

VisionTransformer vit_small_patch16_224(const VitOptions& o) { return VisionTransformer(o); }

}  // namespace wt::models
