#include "warptape/nn/layers.h"

#include <cmath>

#include "warptape/autograd/ops_dropout.h"
#include "warptape/autograd/ops_index.h"
#include "warptape/autograd/ops_matmul.h"
#include "warptape/autograd/ops_norm.h"
#include "warptape/autograd/ops_pointwise.h"
#include "warptape/autograd/ops_shape.h"
#include "warptape/core/factories.h"
#include "warptape/nn/init.h"

namespace wt::nn {
namespace {

Tensor parameter(const Shape& shape, DType t) {
  const CategoryScope scope(Category::parameter);
  return empty(shape, {.dtype = t, .device = mode.default_device});
}

void check_sizes(const char* layer, i64 a, i64 b) {
  if (a < 1 || b < 1)
    throw ShapeError(str("[", layer, "] sizes must be at least 1, got ", a, " and ", b));
}

}  // namespace

Linear::Linear(i64 in, i64 out, const LinearOptions& o)
    : weight((check_sizes("Linear", in, out), add("weight", parameter({out, in}, o.dtype)))),
      bias(add("bias", o.bias ? parameter({out}, o.dtype) : Tensor())) {
  set_type("Linear");
  const double bound = 1 / std::sqrt(double(in));
  init::uniform_(weight.tensor(), -bound, bound);
  if (o.bias) init::uniform_(bias.tensor(), -bound, bound);
}

Tensor Linear::forward(Tensor x) {
  return bias.defined() ? linear(std::move(x), weight, bias) : linear(std::move(x), weight);
}

Embedding::Embedding(i64 count, i64 features, const EmbeddingOptions& o)
    : weight((check_sizes("Embedding", count, features),
              add("weight", parameter({count, features}, o.dtype)))),
      padding_idx_(o.padding_idx) {
  set_type("Embedding");
  if (padding_idx_ && (*padding_idx_ < 0 || *padding_idx_ >= count))
    throw IndexError(
        str("[Embedding] padding_idx ", *padding_idx_, " is outside [0, ", count, ")"));
  init::normal_(weight.tensor());
  if (padding_idx_) {
    const NoGrad no_grad;
    Tensor row = weight.tensor()[*padding_idx_];
    row.zero_();
  }
}

Tensor Embedding::forward(Tensor indices) {
  return embedding(indices, weight, {.padding_idx = padding_idx_});
}

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormOptions& o)
    : weight(add("weight", o.elementwise_affine ? parameter(normalized_shape, o.dtype) : Tensor())),
      bias(add("bias",
               o.elementwise_affine && o.bias ? parameter(normalized_shape, o.dtype) : Tensor())),
      normalized_shape_(normalized_shape),
      eps_(o.eps) {
  set_type("LayerNorm");
  if (normalized_shape.empty())
    throw ShapeError("[LayerNorm] normalized_shape has no axis, at least 1 is needed");
  if (weight.defined()) init::constant_(weight.tensor(), 1);
  if (bias.defined()) init::constant_(bias.tensor(), 0);
}

Tensor LayerNorm::forward(Tensor x) {
  const wt::LayerNormOptions options{.eps = eps_};
  if (bias.defined()) return layer_norm(std::move(x), normalized_shape_, weight, bias, options);
  if (weight.defined()) return layer_norm(std::move(x), normalized_shape_, weight, options);
  return layer_norm(std::move(x), normalized_shape_, options);
}

Dropout::Dropout(double p) : p_(p) {
  set_type("Dropout");
  if (!(p >= 0 && p <= 1)) throw UsageError(str("[Dropout] p must be in [0, 1], got ", p));
}
Tensor Dropout::forward(Tensor x) { return dropout(std::move(x), p_, is_training()); }

Tensor ReLU::forward(Tensor x) { return relu(std::move(x)); }
Tensor GELU::forward(Tensor x) { return gelu(std::move(x)); }
Tensor Tanh::forward(Tensor x) { return tanh(std::move(x)); }
Tensor Flatten::forward(Tensor x) { return flatten(std::move(x), first_); }

Tensor Sequential::forward(Tensor x) {
  for (auto& step : *steps_) x = step(std::move(x));
  return x;
}

}  // namespace wt::nn
