// Containers: names, order, handles, refusals.
#include "warptape/nn/containers.h"

#include "warptape/autograd/node.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

using Names = std::vector<std::string>;
Names names(const nn::ModuleBase& m) {
  Names all;
  for (const auto& t : m.state_dict()) all.push_back(t.name);
  return all;
}

Tensor relu_twice(Tensor x) { return relu(relu(std::move(x))); }

struct Block : nn::Module<Block> {
  nn::Linear fc = add("fc", nn::Linear{2, 2, {.bias = false}});
  Tensor forward(Tensor x) { return fc(std::move(x)); }
};
struct Net : nn::Module<Net> {
  nn::ModuleList<Block> blocks = add("blocks", nn::ModuleList<Block>(2, [] { return Block{}; }));
  nn::ModuleDict<nn::Linear> heads =
      add("heads", nn::ModuleDict<nn::Linear>{{"small", nn::Linear{2, 1}}});
  Tensor forward(Tensor x) {
    for (Block& b : blocks) x = b(std::move(x));
    return heads["small"](std::move(x));
  }
};

}  // namespace

TEST_CASE("ModuleList and ModuleDict register their modules under index and key", "[containers]") {
  const LeakGuard guard;
  Net net;
  CHECK(names(net) == Names{"blocks.0.fc.weight", "blocks.1.fc.weight", "heads.small.weight",
                            "heads.small.bias"});
  CHECK(values(net.blocks[0].fc.weight) != values(net.blocks[1].fc.weight));
  net.eval();
  CHECK_FALSE(net.blocks[1].fc.is_training());
  const Tensor y = net(ones({3, 2}));
  CHECK(y.shape() == Shape{3, 1});
  // Errors, profiles and memory reports know the list too, though nobody calls it.
  CHECK(mentions(describe(y.impl()->node), "heads.small.linear"));
  CHECK(mentions(describe(y.impl()->node->edges[0].node), "blocks.1.fc.linear"));
  // A handle: a copy is the same list.
  nn::ModuleList<Block> copy = net.blocks;
  copy.push_back(Block{});
  CHECK(net.blocks.size() == 3);
  CHECK(names(net)[2] == "blocks.2.fc.weight");
  CHECK(mentions(describe(net(ones({3, 2})).impl()->node->edges[0].node), "blocks.2.fc.linear"));
  CHECK_FALSE(nn::ModuleList<Block>{}.size());
  CHECK(nn::ModuleList<nn::Linear>{nn::Linear{1, 2}, nn::Linear{2, 3}}[1].weight->shape() ==
        Shape{3, 2});
}

TEST_CASE("ModuleList and ModuleDict refuse what is not there or there already", "[containers]") {
  const LeakGuard guard;
  Net net;
  CHECK(mentions(message_of([&] { (void)net.blocks[2]; }), "index 2 is outside [0, 2)"));
  CHECK_THROWS_AS(net.blocks[2], IndexError);
  CHECK(mentions(message_of([&] { (void)net.heads["smal"]; }),
                 "there is no module 'smal'; did you mean 'small'?"));
  CHECK(mentions(message_of([&] {
                   net.heads.insert("small", nn::Linear{1, 1});
                 }),
                 "'small' is registered twice"));
  CHECK(mentions(message_of([&] {
                   net.heads.insert("a.b", nn::Linear{1, 1});
                 }),
                 "is no name for a member"));
  CHECK(net.heads.keys() == Names{"small"});
  CHECK(net.heads.contains("small"));
  CHECK_FALSE(net.heads.contains("large"));
  net.heads.insert("large", nn::Linear{2, 5});
  CHECK(net.heads.keys() == Names{"small", "large"});
  i64 parameters = 0;
  for (auto& [name, head] : net.heads) parameters += head.parameter_count();
  CHECK(parameters == 3 + 15);
}

TEST_CASE("Sequential takes names and any callable", "[containers]") {
  const LeakGuard guard;
  nn::Sequential s;
  s.push_back("fc", nn::Linear{2, 3});
  s.push_back([](Tensor x) { return x * 2; });
  s.push_back(relu_twice);
  s.push_back(nn::Identity{});
  CHECK(names(s) == Names{"fc.weight", "fc.bias"});
  CHECK(s.size() == 4);
  const Tensor x = ones({1, 2});
  nn::Linear same{2, 3};
  same.load_state_dict({{"weight", s.state_dict()[0].tensor}, {"bias", s.state_dict()[1].tensor}});
  CHECK(values(s(x)) == values(relu(same(x) * 2)));
  CHECK_THROWS_AS(s.push_back("fc", nn::Linear{1, 1}), UsageError);
  CHECK(s.size() == 4);  // refused before anything was added
}
