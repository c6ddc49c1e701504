// The layers. Defaults and names are PyTorch's; options are plain aggregates.
#pragma once
#include <optional>

#include "warptape/nn/module.h"

namespace wt::nn {

struct LinearOptions {
  bool bias = true;
  DType dtype = DType::f32;
};
// y = x W^T + b over the last axis; W [out, in], b [out]. Both drawn from U(-1/sqrt(in),
// 1/sqrt(in)).
class WT_API Linear : public Module<Linear> {
 public:
  Linear(i64 in_features, i64 out_features, const LinearOptions& o = {});
  Tensor forward(Tensor x);
  Param weight;
  Param bias;
};

// rows of W [count, features] picked by integer indices; W ~ N(0, 1).
struct EmbeddingOptions {
  std::optional<i64> padding_idx{};  // this row starts at zero and gets no gradient
  DType dtype = DType::f32;
};
class WT_API Embedding : public Module<Embedding> {
 public:
  Embedding(i64 count, i64 features, const EmbeddingOptions& o = {});
  Tensor forward(Tensor indices);
  Param weight;

 private:
  std::optional<i64> padding_idx_;
};

// Over the last axes, which must be normalized_shape: (x - mean) / sqrt(var + eps) * weight + bias.
// weight starts as ones, bias as zeros, both of normalized_shape.
struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  // false: neither weight nor bias
  bool bias = true;
  DType dtype = DType::f32;
};
class WT_API LayerNorm : public Module<LayerNorm> {
 public:
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& o = {});
  explicit LayerNorm(i64 features, const LayerNormOptions& o = {})
      : LayerNorm(Shape{features}, o) {}
  Tensor forward(Tensor x);
  Param weight;
  Param bias;

 private:
  Shape normalized_shape_;
  double eps_;
};

// Zeroes elements with probability p in training and scales the rest by 1 / (1 - p).
class WT_API Dropout : public Module<Dropout> {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(Tensor x);

 private:
  double p_;
};

struct ReLU : Module<ReLU> {
  ReLU() { set_type("ReLU"); }
  WT_API Tensor forward(Tensor x);
};
struct GELU : Module<GELU> {
  GELU() { set_type("GELU"); }
  WT_API Tensor forward(Tensor x);
};
struct Tanh : Module<Tanh> {
  Tanh() { set_type("Tanh"); }
  WT_API Tensor forward(Tensor x);
};
// All axes from `first` on become one.
struct Flatten : Module<Flatten> {
  explicit Flatten(i64 first = 1) : first_(first) { set_type("Flatten"); }
  WT_API Tensor forward(Tensor x);

 private:
  i64 first_;
};

// What a Sequential takes.
template <class M>
concept Step = std::derived_from<M, ModuleBase> || std::is_invocable_r_v<Tensor, M&, Tensor>;

// Modules, or any callables from tensor to tensor, one after the other; children are named "0",
// "1"...
class WT_API Sequential : public Module<Sequential> {
 public:
  template <class... M>
  requires((sizeof...(M) != 1 || (!std::same_as<std::remove_cvref_t<M>, Sequential> && ...)) &&
           (Step<std::remove_cvref_t<M>> && ...)) explicit Sequential(M&&... modules) {
    set_type("Sequential");
    (push_back(std::forward<M>(modules)), ...);
  }
  template <class M>
  void push_back(M module) {
    if constexpr (std::derived_from<M, ModuleBase>)
      add_child(std::to_string(steps_->size()), module);
    steps_->push_back([module](Tensor x) mutable { return module(std::move(x)); });
  }
  Tensor forward(Tensor x);
  size_t size() const { return steps_->size(); }

 private:
  std::shared_ptr<std::vector<std::function<Tensor(Tensor)>>> steps_ =
      std::make_shared<std::vector<std::function<Tensor(Tensor)>>>();
};

}  // namespace wt::nn
