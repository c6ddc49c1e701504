// Attention's gradient of a sum: what comes in is one number, expanded to every element.
#include <algorithm>
#include <vector>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/tolerance.h"

using namespace wt;

namespace {

constexpr i64 kTokens = 70, kWidth = 24;  // more than a block of queries, no whole panels

std::vector<Values> gradients_by(const char* variant, const std::vector<Tensor>& in) {
  const VariantScope use("attention_backward", variant);
  const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
  const std::vector<Tensor> g = grads(y.sum(), {in[0], in[1], in[2]});
  return {values(g[0]), values(g[1]), values(g[2])};
}

}  // namespace

TEST_CASE("attention: the gradient of a sum runs blocked, too") {
  const DType t = GENERATE(DType::f32, DType::f64);
  CAPTURE(dtype_name(t));
  std::vector<Tensor> in;
  for (int i = 0; i < 3; ++i)
    in.push_back(randn({1, 2, kTokens, kWidth}, {.dtype = t, .requires_grad = true}));
  const std::vector<Values> got = gradients_by("blocked", in);
  const std::vector<Values> want = gradients_by("reference", in);
  for (size_t i = 0; i < want.size(); ++i) {
    double largest = 1;  // the gradient that is sent in
    for (double v : want[i]) largest = std::max(largest, std::fabs(v));
    size_t wrong = 0;
    for (size_t k = 0; k < want[i].size(); ++k)
      wrong += !wt_test::within(got[i][k], want[i][k],
                                wt_test::gradient_bound(t, kTokens + kWidth, want[i][k], largest));
    CHECK(wrong == 0);
  }
}
