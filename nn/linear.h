// The fully connected layer, and layers that only pass on.
#pragma once
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
  Linear(i64 in_features, i64 out_features, const LinearOptions& o = {}, const CallLine& = {});
  Tensor forward(Tensor x);
  Param weight;
  Param bias;
};

// x itself.
struct Identity : Module<Identity> {
  Tensor forward(Tensor x) { return x; }
};

// The axes from `first` to `last` become one, in logical order.
struct Flatten : Module<Flatten> {
  WT_API explicit Flatten(i64 first = 1, i64 last = -1);
  WT_API Tensor forward(Tensor x);

 private:
  i64 first_, last_;
};

// Axis `axis` becomes several, of the given sizes, one of which may be -1. Throws ShapeError where
// their product is not the axis's size.
struct Unflatten : Module<Unflatten> {
  WT_API Unflatten(i64 axis, const Shape& sizes);
  WT_API Tensor forward(Tensor x);

 private:
  i64 axis_;
  Shape sizes_;
};

}  // namespace wt::nn
