// What the tests of mixed precision train: two linear layers, f32, four classes.
#pragma once
#include <limits>

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/train_step.h"

namespace wt_test {
using namespace wt;

struct ScaledNet : nn::Module<ScaledNet> {
  nn::Linear first = add("first", nn::Linear{8, 16});
  nn::Linear last = add("last", nn::Linear{16, 4});
  Tensor forward(Tensor x) { return last(relu(first(std::move(x)))); }
};
inline ScaledNet scaled_net(Device d, u64 seed = 3) {
  manual_seed(seed);
  ScaledNet net;
  net.to(d);
  return net;
}

struct Labelled {
  Tensor x, y;
  i64 size() const { return x.size(0); }
  Labelled narrow(i64 begin, i64 n) const { return {x.narrow(0, begin, n), y.narrow(0, begin, n)}; }
  std::array<Tensor*, 2> tensors() { return {&x, &y}; }
};
// The class is where the largest of the first four features is.
inline Labelled labelled(i64 n, Device d, u64 seed = 11) {
  Generator g(seed);
  Generator* const before = mode.generator;
  mode.generator = &g;
  const Tensor x = randn({n, 8});
  mode.generator = before;
  const std::vector<double> v = x.to_vector<double>();
  std::vector<i64> y(size_t(n), 0);
  for (i64 i = 0; i < n; ++i)
    for (i64 k = 1; k < 4; ++k)
      if (v[size_t(i * 8 + k)] > v[size_t(i * 8 + y[size_t(i)])]) y[size_t(i)] = k;
  return {x.to(d), tensor(y).to(d)};
}

inline std::vector<double> values_of(const nn::ModuleBase& net) {
  std::vector<double> all;
  for (const auto& t : net.state_dict())
    for (double v : t.tensor.to_vector<double>()) all.push_back(v);
  return all;
}

// While `on`, the gradient of the tensor is multiplied by infinity.
struct Overflow {
  bool on = false;
  u64 id;
  Tensor tensor;
  explicit Overflow(const Tensor& t) : tensor(t) {
    id = register_hook(t, [this](const Tensor& g) {
      return on ? mul(g, std::numeric_limits<double>::infinity()) : Tensor();
    });
  }
  ~Overflow() { remove_hook(tensor, id); }
};

}  // namespace wt_test
