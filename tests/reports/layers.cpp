// Reports of pooling and attention.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/tests/reports/report.h"

using namespace wt;

namespace wt_test {
namespace {

// Three queries over two keys; the second one may see none.
Tensor attention_without_keys(Device d) {
  const Tensor q = given_leaf(d, {1, 2, 3, 4, 5, 6}), k = given_leaf(d, {1, 0, 1, 0}),
               v = given_leaf(d, {1, 2, 3, 4});
  const Tensor seen = tensor({{true, true}, {false, false}, {true, true}}, {.device = d});
  const Tensor y =
      scaled_dot_product_attention(q.reshape({3, 2}), k.reshape({2, 2}), v.reshape({2, 2}), seen);
  const std::vector<Tensor> g = grads(sum(y), {q, k, v});
  return cat({y.detach().flatten(), isfinite(cat({g[0], g[1]})).to(f32), g[2]});
}

Tensor averages_beyond_the_edge(Device d) {
  const Tensor x = arange(49, {.dtype = f32, .device = d}).reshape({1, 1, 7, 7});
  const Tensor line = arange(7, {.dtype = f32, .device = d}).reshape({1, 1, 7});
  return cat({avg_pool2d(x, 2, {.stride = 3, .ceil_mode = true}).flatten(),
              avg_pool1d(line, 2, {.stride = 3, .ceil_mode = true}).flatten()});
}

}  // namespace

const Reports& layer_reports() {
  static const Reports all = {
      {"rten#1321",
       "attention of a query that may see no key is NaN",
       "zeros, and no gradient is NaN; the others' keys are equal: means of the values",
       attention_without_keys,
       {2, 3, 0, 0, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
      {"coremltools#2844",
       "ceil_mode's windows beyond the edge are divided by the whole kernel",
       "means of what is inside, by hand",
       averages_beyond_the_edge,
       {4, 7, 9.5, 25, 28, 30.5, 42.5, 45.5, 48, 0.5, 3.5, 6}},
      {"rten#1456",
       "the same with padding that counts: the window also hangs over the padding",
       "divided by what lies in the padded input: (0 + 1 + 2) / 3, (2 + 3 + 4) / 3, (4 + 0) / 2",
       [](Device d) {
         return avg_pool1d(given(d, {1, 2, 3, 4}).reshape({1, 1, 4}), 3,
                           {.stride = 2, .padding = 1, .ceil_mode = true})
             .flatten();
       },
       {1, 3, 2}},
      {"executorch#18616",
       "divisor_override is passed over where padding does not count",
       "sums divided by 5",
       [](Device d) {
         return avg_pool2d(
                    ones({1, 1, 2, 2}, {.device = d}), 2,
                    {.stride = 2, .padding = 1, .count_include_pad = false, .divisor_override = 5})
             .flatten();
       },
       {0.2, 0.2, 0.2, 0.2}},
      {"burn#5662",
       "max pooling passes over a NaN unless it is a window's first element",
       "NaN",
       [](Device d) {
         const Tensor x = given(d, {1, NAN, 5, 6, 3, 4, NAN, 8, 1, 2, 3, 4}).reshape({1, 1, 12});
         return max_pool1d(x, 4).flatten();
       },
       {kNan, kNan, 4}},
      {"tvm#18641",
       "pooling of 17 x 17 by 2, padded by 1, rounded up, is said to give 10 x 10",
       "9 x 9: a tenth window would begin beyond the input and its left padding",
       [](Device d) {
         const Tensor x = zeros({1, 3, 17, 17}, {.device = d});
         const Shape a = avg_pool2d(x, 2, {.padding = 1, .ceil_mode = true}).shape(),
                     m = max_pool2d(x, 2, {.padding = 1, .ceil_mode = true}).shape();
         return given(d, {a[1], a[2], a[3], m[1], m[2], m[3]}, int64);
       },
       {3, 9, 9, 3, 9, 9}},
  };
  return all;
}

}  // namespace wt_test
