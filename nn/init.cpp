#include "warptape/nn/init.h"

#include <cmath>
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/random.h"

namespace wt::nn::init {
namespace {

// Element i of a call is a function of (seed, call, i) alone.
template <class F>
void draw(const Tensor& t, F value) {
  const RandomCall c = next_random_call(RandomStream::init);
  count_random_call(RandomStream::init, c);
  if (t.device().is_meta) return;
  std::vector<double> values(static_cast<size_t>(t.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value(philox(c.key, i, c.call));
  const NoGrad no_grad;
  Tensor to = t;
  to.copy_(tensor(values).view(t.shape()));
}

}  // namespace

void uniform_(const Tensor& t, double low, double high) {
  draw(t, [=](const PhiloxBlock& b) { return low + (high - low) * uniform53(b.v[0], b.v[1]); });
}

void normal_(const Tensor& t, double mean, double std) {
  draw(t, [=](const PhiloxBlock& b) {
    const double u = 1.0 - uniform53(b.v[0], b.v[1]), v = uniform53(b.v[2], b.v[3]);
    return mean + std * std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  });
}

void constant_(const Tensor& t, double value) {
  const NoGrad no_grad;
  Tensor to = t;
  to.fill_(value);
}

}  // namespace wt::nn::init
