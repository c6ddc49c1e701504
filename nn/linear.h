// The fully connected layer, and layers that only pass on.
#pragma once
#include "warptape/nn/module.h"

namespace wt::nn {

// What a Linear is made with.
struct LinearOptions {
  bool bias = true;          // false: y = x W^T
  DType dtype = DType::f32;  // of weight and bias
};
// y = x W^T + b over the last axis (wt::linear); W [out, in], b [out], both drawn from
// U(-1/sqrt(in), 1/sqrt(in)).
class WT_API Linear : public Module<Linear> {
 public:
  // Makes the parameters on the default device. Throws ShapeError for sizes below 1.
  Linear(i64 in_features, i64 out_features, const LinearOptions& o = {}, const CallLine& = {});
  // [..., in] to [..., out]. Throws ShapeError and DtypeError, as wt::linear does.
  Tensor forward(Tensor x);
  Param weight;  // [out, in]
  Param bias;    // [out]; undefined with {.bias = false}
};

// A layer that returns x itself, for the place of one that is left out.
struct Identity : Module<Identity> {
  // Any shape, to the same tensor.
  Tensor forward(Tensor x) { return x; }
};

// Merges the axes from `first` to `last` into one, in logical order (wt::flatten).
struct Flatten : Module<Flatten> {
  // Which axes; negative ones count from the end. By default all but the first.
  WT_API explicit Flatten(i64 first = 1, i64 last = -1);
  // [B, C, H, W] to [B, C H W] by default: a view where the strides allow it, else a copy. Throws
  // ShapeError for an axis that x does not have and where `first` comes after `last`.
  WT_API Tensor forward(Tensor x);

 private:
  i64 first_, last_;
};

// Splits an axis into several, of the given sizes, one of which may be -1. Throws ShapeError where
// their product is not the axis's size.
struct Unflatten : Module<Unflatten> {
  // Which axis (negative: from the end) and what it becomes; forward checks both.
  WT_API Unflatten(i64 axis, const Shape& sizes);
  // [B, C H W] to [B, C, H, W] for axis 1 and sizes {C, H, W}. Throws ShapeError.
  WT_API Tensor forward(Tensor x);

 private:
  i64 axis_;
  Shape sizes_;
};

}  // namespace wt::nn
