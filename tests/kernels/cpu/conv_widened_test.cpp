// 16-bit convolutions whose f32 copies do not fit at once take several turns, which the sums of the
// weight gradient run across.
#include <vector>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

// Small whole numbers: every sum is exact in f32, in any order.
Tensor whole_numbers(const Shape& shape, DType t, i64 most) {
  i64 n = 1;
  for (i64 size : shape) n *= size;
  std::vector<double> v;
  for (i64 i = 0; i < n; ++i) v.push_back(double(i * 7 % (2 * most + 1) - most));
  return tensor(v, {.dtype = t}).reshape(shape).detach().set_requires_grad();
}

std::vector<Values> run_with(const char* variant, const std::vector<Tensor>& in) {
  const VariantScope forward("conv_forward", variant);
  const VariantScope input("conv_backward_input", variant);
  const VariantScope weight("conv_backward_weight", variant);
  const Tensor y = conv2d(in[0], in[1], in[2]);
  const std::vector<Tensor> g = grads(y.sum(), {in[0], in[1], in[2]});
  return {values(y), values(g[0]), values(g[1]), values(g[2])};
}

}  // namespace

TEST_CASE("conv widened: several turns give what the reference gives") {
  const DType t = GENERATE(DType::f16, DType::bf16);
  CAPTURE(dtype_name(t));
  // An image and its results take 7 MB as f32, a turn 8.
  const std::vector<Tensor> in{whole_numbers({3, 1, 768, 800}, t, 2),
                               whole_numbers({2, 1, 1, 1}, t, 1), whole_numbers({2}, t, 1)};
  CHECK(run_with("widened", in) == run_with("reference", in));
}
