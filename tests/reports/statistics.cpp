// Reports of sums, spreads, sizes and distances.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/tests/reports/report.h"

using namespace wt;

namespace wt_test {
namespace {

Tensor steps_of_a_sum(Device d) {
  const Tensor sums = cumsum(full({65536}, 0.1f, {.dtype = f32, .device = d}), 0);
  return index_select(sums, 0, tensor({9, 999, 65535}, {.device = d}));
}

Tensor half_norms(Device d) {
  const Tensor x = given(d, {8000, -8000, 8000, -8000}, f16);
  return cat({layer_norm(x, {4}), rms_norm(x, {4})});
}

Tensor cosine_of(Device d, double unit, i64 n) {
  const Tensor x = full({1, n}, unit, {.dtype = f32, .device = d});
  return cosine_similarity(x, 2 * x);
}

Tensor cosine_of_nothing(Device d) {
  const Tensor x = given_leaf(d, {0, 0, 0}), y = given(d, {1, 2, 3});
  const Tensor c = cosine_similarity(x, y, {.dim = 0});
  return cat({c.detach().unsqueeze(0), isfinite(grad(c, x)).to(f32)});
}

Tensor sums_with_nan(Device d) {
  const Tensor x = given(d, {1, NAN, kInf, 2});
  return stack({sum(x), mean(x), prod(x), sum(given(d, {kInf, -kInf})), sum(given(d, {1, kInf}))});
}

}  // namespace

const Reports& statistic_reports() {
  static const Reports all = {
      {"tt-metal#55542",
       "cumsum's error in f32 grows as the length to 1.5: each sum is rounded",
       "i times 0.1 in f32, in f64; what adding in f64 would give, after 65,536 elements",
       steps_of_a_sum,
       {10 * double(0.1f), 1000 * double(0.1f), 65536 * double(0.1f)},
       8},
      {"tt-metal#47494",
       "sums of rows with a NaN are infinite or large numbers",
       "NaN, of inf and -inf too; inf of inf alone",
       sums_with_nan,
       {kNan, kNan, kNan, kNan, kInf}},
      {"onnxruntime#29043",
       "norms in f16 overflow in the squares of numbers beyond 256",
       "1 and -1: computed in f32",
       half_norms,
       {1, -1, 1, -1, 1, -1, 1, -1}},
      {"knowhere#1676",
       "the cosine of two vectors of 64 times 1e20 is 0: the squared norm overflows",
       "1",
       [](Device d) { return cosine_of(d, 1e20, 64); },
       {1},
       72},
      {"qdrant#10465",
       "vectors shorter than 3.45e-4 are taken for 0 and not normalised",
       "1",
       [](Device d) { return cosine_of(d, 5e-5, 4); },
       {1},
       12},
      {"sqlite-vec#8",
       "the cosine with a vector of zeros is NaN and spoils the order",
       "0, with finite gradients",
       cosine_of_nothing,
       {0, 1, 1, 1}},
      {"numpy#31487",
       "quantiles of 65,521 numbers in f16 are NaN: the rank overflows",
       "0: ten are 1",
       [](Device d) {
         const Tensor ones_first = lt(arange(65521, {.device = d}), 10).to(f16);
         return quantile(ones_first, tensor({0.5}, {.dtype = f16, .device = d}), 0);
       },
       {0}},
  };
  return all;
}

}  // namespace wt_test
