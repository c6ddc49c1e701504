// Reports of what happens around a step.
#include "warptape/autograd/ops.h"
#include "warptape/optim/clip.h"
#include "warptape/tests/reports/report.h"

using namespace wt;

namespace wt_test {
namespace {

// A gradient of `size` in a parameter of dtype t, clipped to a norm of 1: the norm, the gradient.
Tensor clipped(Device d, double size, DType t) {
  const Tensor x = given_leaf(d, {1}, t);
  sum(x * full({1}, size, {.dtype = t, .device = d})).backward();
  const Tensor norm = optim::clip_grad_norm_(std::span<const Tensor>(&x, 1), 1);
  return cat({(norm / size).to(f32).unsqueeze(0), x.grad().to(f32)});
}

}  // namespace

const Reports& training_reports() {
  static const Reports all = {
      {"burn#5699",
       "clipping turns an f16 gradient of 300 into 0: its square overflows",
       "1, the norm is 300",
       [](Device d) { return clipped(d, 300, f16); },
       {1, 1}},
      {"burn#5699",
       "the same of f32 beyond 1e19, of bf16, and of f64 beyond 1e154",
       "clipped to 1",
       [](Device d) {
         return cat(
             {clipped(d, 0x1p100, f32), clipped(d, 0x1p100, bf16), clipped(d, 0x1p700, f64)});
       },
       {1, 1, 1, 1, 1, 1}},
  };
  return all;
}

}  // namespace wt_test
