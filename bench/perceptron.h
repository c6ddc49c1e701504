// What `wt bench overlap` and `scaling` train: 784 go in, 10 come out. Internal.
#pragma once
#include <utility>
#include <vector>

#include "warptape/autograd/ops.h"
#include "warptape/core/str.h"
#include "warptape/data/dataset.h"
#include "warptape/nn/linear.h"
#include "warptape/nn/loss.h"

namespace wt::bench {

struct Perceptron : nn::Module<Perceptron> {
  std::vector<nn::Linear> hidden;
  nn::Linear out;
  Perceptron(i64 width, i64 layers) : hidden(make(*this, width, layers)), out(last(*this, width)) {}
  Tensor forward(Tensor x) {
    for (nn::Linear& l : hidden) x = relu(l(std::move(x)));
    return out(std::move(x));
  }

 private:
  static std::vector<nn::Linear> make(Perceptron& p, i64 width, i64 layers) {
    std::vector<nn::Linear> all;
    for (i64 i = 0; i < layers; ++i)
      all.push_back(p.add(str("hidden", i), nn::Linear{i ? width : 784, width}));
    return all;
  }
  static nn::Linear last(Perceptron& p, i64 width) { return p.add("out", nn::Linear{width, 10}); }
};

inline auto loss_of(Perceptron& net) {
  return [&net](const data::Batch& b) { return cross_entropy(net(b.x), b.y); };
}

}  // namespace wt::bench
