// Reports of places, order and writing by index.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/tests/reports/report.h"

using namespace wt;

namespace wt_test {
namespace {

Tensor top_with_nan(Device d) {
  std::vector<float> row(64);
  for (int i = 0; i < 64; ++i) row[i] = float(i + 1);
  row[10] = std::copysign(std::nanf(""), -1.0f);
  const SortResult top = topk(tensor(row, {.device = d}), 3);
  return cat({top.values, top.indices.to(f32)});
}

Tensor places(Device d, DType t) {
  return stack({argmax(given(d, {1, NAN, 3}, t)), argmax(given(d, {-0.0, 0.0}, t)),
                argmax(given(d, {0.0, -0.0}, t)), argmin(given(d, {0.0, -0.0}, t)),
                argmax(given(d, {-kInf, -kInf}, t))});
}

// An index that repeats one column along the other axis without memory of its own.
Tensor added_by_a_spread_index(Device d) {
  const Tensor index = tensor({0, 2, 0}, {.device = d}).unsqueeze(1).expand({3, 2});
  const Tensor source = given(d, {1, 2, 3, 4, 5, 6}).reshape({3, 2});
  return scatter_add(zeros({3, 2}, {.device = d}), 0, index, source).flatten();
}
Tensor gathered_by_a_spread_index(Device d) {
  const Tensor x = given_leaf(d, {1, 2, 3, 4, 5, 6});
  const Tensor index = tensor({2, 0, 2}, {.device = d}).unsqueeze(1).expand({3, 2});
  const Tensor y = gather(x.reshape({3, 2}), 0, index);
  return cat({y.detach().flatten(), grad(sum(y), x)});
}

Tensor reduced_by_a_smaller_index(Device d) {
  const Tensor source = arange(1, 13, 1, {.dtype = f32, .device = d}).reshape({3, 4});
  const Tensor index = tensor({{0, 1}, {1, 1}}, {.device = d});
  return cat({scatter_reduce(zeros({3, 4}, {.device = d}), 0, index, source, ScatterReduction::sum)
                  .flatten(),
              scatter_reduce(zeros({3, 4}, {.device = d}), 0, index, source, ScatterReduction::amax)
                  .flatten()});
}

}  // namespace

const Reports& order_reports() {
  static const Reports all = {
      {"tt-metal#56626",
       "topk puts a NaN with a sign below -inf, so that it drops out",
       "NaN is largest whatever its sign: NaN, 64, 63 at 10, 63, 62",
       top_with_nan,
       {kNan, 64, 63, 10, 63, 62},
       0},
      {"tt-metal#55346",
       "argmax in f32 never finds a NaN, in bf16 a later 0 wins over -0",
       "the first NaN, the first of equal ones, of which 0 and -0 are",
       [](Device d) {
         return cat({places(d, f32), places(d, bf16), places(d, f16), places(d, f64)});
       },
       {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0},
       0},
      {"burn#4859",
       "argmax and argmin give the second NaN where the first one is in front",
       "the first, 0",
       [](Device d) {
         const Tensor x = given(d, {NAN, 1, NAN, 3});
         return stack({argmax(x), argmin(x), max_with_indices(x, 0).indices});
       },
       {0, 0, 0},
       0},
      {"FlagGems#6448",
       "scatter_add takes an expanded index for one of as many numbers as it shows",
       "sums by hand: (6, 8), (0, 0), (3, 4)",
       added_by_a_spread_index,
       {6, 8, 0, 0, 3, 4},
       0},
      {"FlagGems#6448",
       "the same of gather and its gradient",
       "rows 2, 0, 2, each counted as often as read",
       gathered_by_a_spread_index,
       {5, 6, 1, 2, 5, 6, 1, 1, 0, 0, 2, 2},
       0},
      {"FlagGems#3545",
       "scatter_reduce with an index smaller than its source reads beyond the index",
       "by hand: what the index does not cover is not read",
       reduced_by_a_smaller_index,
       {1, 0, 0, 0, 5, 8, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 6, 0, 0, 0, 0, 0, 0},
       0},
  };
  return all;
}

}  // namespace wt_test
