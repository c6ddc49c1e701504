// Derivatives of functions: f is anything that makes one tensor of tensors by the library's
// operators, `[&](const Tensor& x) { return ...; }`. docs/functional.md shows them in use.
//
// They compute with recording on, whatever the mode is outside, on tensors of their own that share
// the given ones' elements: no .grad is touched. With create_graph the results can be
// differentiated again, in the given tensors too.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "warptape/core/tensor.h"

namespace wt {

using TensorFunction = std::function<Tensor(const Tensor&)>;
using TensorsFunction = std::function<Tensor(std::span<const Tensor>)>;

struct FunctionalOptions {
  bool create_graph = false;
  // jacobian and hessian: all backwards at once, by vmap() (autograd/vmap.h): faster, with as many
  // times the memory. What vmap() refuses is refused then.
  bool vectorize = false;
};

struct ProductResult {
  Tensor output;   // f(x)
  Tensor product;  // the derivative's product with v
};
// J v, the derivative of f at x in the direction v (of x's shape): of f's shape. By two backwards,
// the second through the first (the double-backward trick), so every operator that is twice
// differentiable has it. Zeros where f(x) does not depend on x. Throws ShapeError, DtypeError
// unless x is floating.
WT_API ProductResult jvp(const TensorFunction& f, const Tensor& x, const Tensor& v,
                         FunctionalOptions options = {}, Frame at = Frame::here());
// v^T J, v of f's shape: of x's shape. Throws as jvp.
WT_API ProductResult vjp(const TensorFunction& f, const Tensor& x, const Tensor& v,
                         FunctionalOptions options = {}, Frame at = Frame::here());
// H v for f of one element: product of the second derivatives with v, of x's shape. Throws as jvp,
// and ShapeError unless f(x) has one element.
WT_API ProductResult hvp(const TensorFunction& f, const Tensor& x, const Tensor& v,
                         FunctionalOptions options = {}, Frame at = Frame::here());

// All derivatives: [shape of f(x)..., shape of x...], one backward for each element of f(x). Throws
// DtypeError unless x is floating, ShapeError where the result would have too many dimensions.
WT_API Tensor jacobian(const TensorFunction& f, const Tensor& x, FunctionalOptions options = {},
                       Frame at = Frame::here());
// One for each of several inputs.
WT_API std::vector<Tensor> jacobian(const TensorsFunction& f, std::span<const Tensor> inputs,
                                    FunctionalOptions options = {}, Frame at = Frame::here());

// The second derivatives of f of one element: [shape of x..., shape of x...]. Throws as jacobian,
// and ShapeError unless f(x) has one element.
WT_API Tensor hessian(const TensorFunction& f, const Tensor& x, FunctionalOptions options = {},
                      Frame at = Frame::here());
// hessian[i][j]: by input i, then by input j.
WT_API std::vector<std::vector<Tensor>> hessian(const TensorsFunction& f,
                                                std::span<const Tensor> inputs,
                                                FunctionalOptions options = {},
                                                Frame at = Frame::here());

}  // namespace wt
