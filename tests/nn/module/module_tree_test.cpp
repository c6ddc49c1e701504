// A module's tree as handles: names and order as in PyTorch, types, parameters by name, apply.
#include "warptape/autograd/custom.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/nn/init.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/type_name.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

using Names = std::vector<std::string>;
Names names(const std::vector<nn::NamedModule>& modules) {
  Names all;
  for (const nn::NamedModule& m : modules) all.push_back(m.name);
  return all;
}
Names types(const std::vector<nn::ModuleBase>& modules) {
  Names all;
  for (const nn::ModuleBase& m : modules) all.emplace_back(m.type());
  return all;
}

struct Block : nn::Module<Block> {
  nn::Linear fc = add("fc", nn::Linear{2, 2, {.bias = false}});
  Tensor forward(Tensor x) { return fc(std::move(x)); }
};
struct Net : nn::Module<Net> {
  nn::Sequential head = add("head", nn::Sequential{nn::Linear{2, 3}, nn::ReLU{}});
  nn::ModuleList<Block> blocks = add("blocks", nn::ModuleList<Block>(2, [] { return Block{}; }));
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{3});
  Tensor forward(Tensor x) { return head(blocks[1](blocks[0](std::move(x)))); }
};
// One layer in three places.
struct Shared : nn::Module<Shared> {
  nn::Linear a = add("a", nn::Linear{2, 2});
  nn::Linear b = add("b", a);
  nn::Sequential s = add("s", nn::Sequential{a, nn::Tanh{}});
  Tensor forward(Tensor x) { return s(b(a(std::move(x)))); }
};
template <class M, int N>
struct Wrapper : nn::Module<Wrapper<M, N>> {
  M inner = this->add("inner", M{2, 2});
};

struct Twice {
  static constexpr OpInfo info{.name = "twice"};
  Tensor forward(Save&, const Tensor& x) const { return x * 2; }
  Grads backward(const Saved&, const Tensor& gy) const { return {gy * 2}; }
};
struct Sum {
  static constexpr OpInfo info{.name = "sum_of_all"};
  Tensor forward(Save&, const Tensor& a, const Tensor& b) const { return a + b; }
  Tensor forward(Save&, const Tensor& a, const Tensor& b, const Tensor& c) const {
    return a + b + c;
  }
  Tensor forward(Save&, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) const {
    return a + b + c + d;
  }
  Grads backward(const Saved&, const Tensor& gy) const { return {gy, gy}; }
};

std::string here(int line) { return "module_tree_test.cpp:" + std::to_string(line); }

}  // namespace

TEST_CASE("named_modules: this one, then all below, parents first", "[modules]") {
  const LeakGuard guard;
  const Net net;
  CHECK(names(net.named_children()) == Names{"head", "blocks", "norm"});
  CHECK(types(net.children()) == Names{"Sequential", "ModuleList", "BatchNorm1d"});
  CHECK(names(net.named_modules()) == Names{"", "head", "head.0", "head.1", "blocks", "blocks.0",
                                            "blocks.0.fc", "blocks.1", "blocks.1.fc", "norm"});
  CHECK(types(net.modules()) == Names{"Net", "Sequential", "Linear", "ReLU", "ModuleList", "Block",
                                      "Linear", "Block", "Linear", "BatchNorm1d"});
  CHECK(net.name().empty());
  CHECK(net.head.name() == "head");
  CHECK(net.blocks[1].name() == "blocks.1");
  CHECK(net.blocks[1].fc.name() == "fc");
  CHECK(nn::ReLU{}.children().empty());
  CHECK(names(nn::ReLU{}.named_modules()) == Names{""});
}

TEST_CASE("named_modules: what is registered twice appears once, under its first name",
          "[modules]") {
  const Shared net;
  CHECK(names(net.named_children()) == Names{"a", "s"});
  CHECK(names(net.named_modules()) == Names{"", "a", "s", "s.1"});
  CHECK(net.modules().size() == 4);
  int calls = 0;
  net.apply([&](const nn::ModuleBase&) { ++calls; });
  CHECK(calls == 4);
}

TEST_CASE("children and modules are handles: they share what they stand for", "[modules]") {
  const LeakGuard guard;
  const Net net;
  const std::vector<nn::ModuleBase> all = net.modules();
  CHECK(all[2].parameter("weight")->same_as(net.head.parameter("0.weight")));
  all[5].eval();
  CHECK_FALSE(net.blocks[0].is_training());
  CHECK_FALSE(net.blocks[0].fc.is_training());
  CHECK(net.blocks[1].is_training());
  int calls = 0;
  const u64 id = all[1].register_forward_hook([&](const nn::ModuleBase& m, const Tensor&) {
    ++calls;
    CHECK(m.type() == "Sequential");
  });
  (void)net(ones({1, 2}));
  CHECK(calls == 1);
  net.head.remove_hook(id);
}

TEST_CASE("apply: children before their parent, and each may be written to", "[modules]") {
  const Net net;
  Names order;
  net.apply([&](nn::ModuleBase& m) { order.emplace_back(m.type()); });
  CHECK(order == Names{"Linear", "ReLU", "Sequential", "Linear", "Block", "Linear", "Block",
                       "ModuleList", "BatchNorm1d", "Net"});
  net.apply([](const auto& m) {
    if (m.type() == "Linear") nn::init::constant_(m.parameter("weight"), 0.5);
  });
  CHECK(values(net.head.parameter("0.weight")) == Values(6, 0.5));
  CHECK(values(net.blocks[1].fc.weight) == Values(4, 0.5));
  CHECK(values(net.norm.weight) == Values(3, 1));
}

TEST_CASE("apply inside a module is also the call of a custom operator", "[modules]") {
  const LeakGuard guard;
  static int line = 0;
  struct Custom : nn::Module<Custom> {
    Tensor forward(Tensor x) {
      const Tensor y = apply(Twice{}, x);
      CHECK([](const auto& a, const auto& b) { return apply(Sum{}, a, b); }(x, y).item() == 9);
      CHECK(apply(Sum{}, x, y, y).item() == 15);
      CHECK(apply(Sum{}, x, y, y, y).item() == 21);
      line = __LINE__ + 1;
      return apply(Twice{}, Tensor());
    }
  } net;
  const std::string text = message_of([&] { (void)net(tensor({3.0})); });
  CHECK(mentions(text, "[twice]"));
  CHECK(mentions(text, here(line)));
}

TEST_CASE("parameter and buffer: by name, of what is below too", "[modules]") {
  const LeakGuard guard;
  const Net net;
  CHECK(net.parameter("blocks.0.fc.weight")->same_as(net.blocks[0].fc.weight));
  CHECK(net.blocks.parameter("1.fc.weight")->same_as(net.blocks[1].fc.weight));
  CHECK(net.buffer("norm.running_mean")->same_as(net.norm.running_mean));
  CHECK_FALSE(net.parameter("blocks.0.fc.bias").defined());  // {.bias = false}
  const Shared shared;
  for (const char* name : {"a.weight", "b.weight", "s.0.weight"})
    CHECK(shared.parameter(name)->same_as(shared.a.weight));
  // A seat, as the member is: assigning it ties.
  shared.parameter("a.weight") = net.blocks[0].fc.weight;
  CHECK(shared.a.weight->same_as(net.blocks[0].fc.weight));

  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)net.parameter("blocks.0.fc.wieght"); });
  CHECK(text ==
        "UsageError: [Net] there is no parameter 'blocks.0.fc.wieght'; did you mean "
        "'blocks.0.fc.weight'?\n  at " +
            here(line));
  CHECK(mentions(message_of([&] { (void)net.norm.parameter("running_mean"); }),
                 "[BatchNorm1d] there is no parameter 'running_mean'\n  at "));
  CHECK(mentions(message_of([&] { (void)net.norm.parameter("running_mean"); }),
                 "\n  Try buffer(\"running_mean\")"));
  CHECK(mentions(message_of([&] { (void)net.norm.buffer("weight"); }),
                 "\n  Try parameter(\"weight\")"));
  CHECK_THROWS_AS((void)net.parameter(""), UsageError);
}

TEST_CASE("type: the name of the class, whatever stands around it", "[modules]") {
  using nn::detail::bare_type_name;
  static_assert(bare_type_name("Net") == "Net");
  static_assert(bare_type_name("a::b2::Net_3") == "Net_3");
  static_assert(bare_type_name("{anonymous}::Net") == "Net");
  static_assert(bare_type_name("(anonymous namespace)::f(int)::Net") == "Net");
  static_assert(bare_type_name("main()::<lambda(int)>::Net") == "Net");
  static_assert(bare_type_name("a::Net<b::C<d::E>, 3>") == "Net");
  static_assert(bare_type_name("Net<A<B> >") == "Net");
  static_assert(bare_type_name("N\xc3\xa9t") == "N\xc3\xa9t");
  static_assert(bare_type_name("<unnamed struct>").empty());
  static_assert(bare_type_name("").empty());

  struct Local : nn::Module<Local> {
    nn::Linear fc{2, 2};
    Tensor forward(Tensor x) { return fc(std::move(x)); }
  };
  CHECK(Local{}.type() == "Local");
  CHECK(Wrapper<nn::Linear, 3>{}.type() == "Wrapper");
  const auto inner = [] {
    struct Inner : nn::Module<Inner> {};
    return Inner{}.type();
  };
  CHECK(inner() == "Inner");
  struct Renamed : nn::Module<Renamed> {
    Renamed() { set_type("Other"); }
  };
  CHECK(Renamed{}.type() == "Other");
  struct Derived : nn::Linear {
    Derived() : nn::Linear(2, 2) {}
  };
  CHECK(Derived{}.type() == "Linear");
  CHECK(nn::ModuleBase{}.type() == "Module");
  CHECK(nn::ModuleList<Block>{}.type() == "ModuleList");
  // Where users read it.
  CHECK(mentions(Wrapper<nn::Linear, 3>{}.summary(), "Wrapper\n  inner: Linear  6\n"));
  CHECK(mentions(message_of([] {
                   (void)Local{}(ones({1, 2}));
                 }),
                 "[Local] a Linear with parameters is called but not registered"));
}

TEST_CASE("Sequential[i] is a handle to a step that can be called", "[modules][containers]") {
  const LeakGuard guard;
  nn::Sequential net{nn::Linear{2, 3}, [](Tensor x) { return x * 2; }, nn::Linear{3, 1}};
  const Tensor x = ones({1, 2});
  CHECK(net[0].type() == "Linear");
  CHECK(net[1].type() == "Function");
  CHECK(net[1].parameters().empty());
  CHECK(net[-1].parameter("weight")->shape() == Shape{1, 3});
  CHECK(net[0].parameter("weight")->same_as(net.parameter("0.weight")));
  CHECK(values(net[2](net[1](net[0](x)))) == values(net(x)));
  const nn::Sequential front{net[0], net[1]};
  CHECK(values(front[1](front[0](x))) == values(net[1](net[0](x))));
  CHECK(front.parameter_count() == 9);
  int line = __LINE__ + 1;
  std::string text = message_of([&] { (void)net[3]; });
  CHECK(text == "IndexError: [Sequential] index 3 is outside [-3, 3)\n  at " + here(line));
  CHECK_THROWS_AS(net[-4], IndexError);
  CHECK_THROWS_AS(nn::Sequential{}[0], IndexError);
  line = __LINE__ + 1;
  text = message_of([&] { (void)net[0](ones({1, 5})); });
  CHECK(mentions(text, "[linear]"));
  CHECK(mentions(text, here(line)));
}
