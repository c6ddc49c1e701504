// clone(): a copy of a module that shares nothing with it.
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/random.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

struct ClonedBlock : nn::Module<ClonedBlock> {
  nn::Linear fc = add("fc", nn::Linear{3, 3});
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{3});
  nn::Param scale = add("scale", ones({3}));
  double factor = 2;
  Tensor forward(Tensor x) { return norm(fc(std::move(x))) * scale * factor; }
};

struct ClonedNet : nn::Module<ClonedNet> {
  nn::ModuleList<ClonedBlock> blocks =
      add("blocks", nn::ModuleList<ClonedBlock>(2, [] { return ClonedBlock(); }));
  nn::Sequential head =
      add("head", nn::Sequential{nn::Linear{3, 4}, [](Tensor x) { return relu(std::move(x)); },
                                 nn::Linear{4, 3}});
  nn::Linear tied = add("tied", nn::Linear{3, 3});
  ClonedNet() { tied.weight = blocks[0].fc.weight; }
  Tensor forward(Tensor x) {
    for (ClonedBlock& b : blocks) x = b(x);
    return tied(head(std::move(x)));
  }
};

// Whether two modules have a tensor in common.
bool share(const nn::ModuleBase& a, const nn::ModuleBase& b) {
  for (const nn::NamedTensor& x : a.state_dict())
    for (const nn::NamedTensor& y : b.state_dict())
      if (x.tensor.same_as(y.tensor) || x.tensor.impl()->storage == y.tensor.impl()->storage)
        return true;
  return false;
}

void train_a_step(ClonedNet& net, const Tensor& x) {
  optim::Sgd opt{net, {.lr = 0.1}};
  sum(square(net(x))).backward();
  opt.step();
}

}  // namespace

TEST_CASE("clone: the copy computes the same with tensors of its own") {
  const LeakGuard guard;
  manual_seed(1);
  ClonedNet net;
  net.blocks[1].factor = 3;
  const Tensor x = randn({5, 3});
  (void)net(x);  // running statistics are no longer those of the beginning
  net.eval();
  ClonedNet copy = net.clone();
  CHECK(copy.summary() == net.summary());
  CHECK_FALSE(copy.is_training());
  CHECK_FALSE(share(net, copy));
  const Values before = values(net(x));
  CHECK(values(copy(x)) == before);
  net.train();
  train_a_step(net, x);
  CHECK(values(copy(x)) == before);
  copy.train();
  net.eval();
  const Values trained = values(net(x));
  train_a_step(copy, x);
  CHECK(values(net(x)) == trained);
  CHECK(copy.blocks[1].factor == 3);
}

TEST_CASE("clone: handles within the copy lead into the copy, tied tensors are tied again") {
  const LeakGuard guard;
  ClonedNet net;
  ClonedNet copy = net.clone();
  CHECK(copy.tied.weight.tensor().same_as(copy.blocks[0].fc.weight.tensor()));
  CHECK(copy.parameters().size() == net.parameters().size());
  {
    const NoGrad no_grad;
    Tensor w = copy.blocks[0].fc.weight;
    w.fill_(7);
    Tensor first = copy.parameter("head.0.weight");
    first.fill_(0);
  }
  CHECK(values(copy.tied.weight) == Values(9, 7));
  CHECK(values(copy.head[0](ones({1, 3}))) == values(copy.parameter("head.0.bias")));
  CHECK(values(net.tied.weight) != Values(9, 7));
  nn::Linear handle = copy.tied;  // a plain copy is still a handle
  CHECK(handle.weight.tensor().same_as(copy.tied.weight.tensor()));
}

TEST_CASE("clone: frozen parameters stay frozen, gradients and optimizers stay behind") {
  const LeakGuard guard;
  ClonedNet net;
  net.requires_grad_("head.*", false);
  const optim::Sgd opt{net, {.lr = 0.1}};
  sum(net(ones({2, 3}))).backward();
  ClonedNet copy = net.clone();
  CHECK_FALSE(copy.parameter("head.0.weight")->requires_grad());
  CHECK(copy.parameter("tied.bias")->requires_grad());
  CHECK(copy.parameter("tied.bias")->is_leaf());
  CHECK(net.parameter("tied.bias")->grad().defined());
  CHECK_FALSE(copy.parameter("tied.bias")->grad().defined());
  copy.to(f64);  // refused for what an optimizer holds
  CHECK_THROWS_AS(net.to(f64), UsageError);
}

TEST_CASE("clone: hooks are called for the copy") {
  nn::Linear fc{2, 2};
  int calls = 0;
  fc.register_forward_hook([&](const nn::ModuleBase&, const Tensor&) { ++calls; });
  nn::Linear copy = fc.clone();
  (void)copy(ones({1, 2}));
  CHECK(calls == 1);
}

TEST_CASE("clone: batch norm over ranks of one copy leaves the other alone") {
  nn::BatchNorm1d norm{2};
  nn::BatchNorm1d copy = norm.clone();
  int sums = 0;
  nn::BatchNorm1d::sum_over_ranks(copy, [&](const Tensor& t) {
    ++sums;
    return t;
  });
  (void)norm(rand({3, 2}));
  CHECK(sums == 0);
  (void)copy(rand({3, 2}));
  CHECK(sums > 0);
}

TEST_CASE("clone: a parameter without a tensor has none in the copy, and may get one") {
  struct Optional : nn::Module<Optional> {
    nn::Param bias = add("bias", Tensor());
    Tensor forward(const Tensor& x) { return bias.defined() ? x + bias : x; }
  };
  Optional net;
  Optional copy = net.clone();
  CHECK_FALSE(copy.bias.defined());
  copy.bias = ones({2});
  CHECK(values(copy(zeros({2}))) == Values{1, 1});
  CHECK(values(net(zeros({2}))) == Values{0, 0});
}
