// Modules are handles: registration, names, tying, modes, moves, state, calls.
#include "warptape/nn/module.h"

#include <sstream>
#include <tuple>

#include "warptape/autograd/node.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/memory.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/module_state.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

struct Net : nn::Module<Net> {
  nn::Linear fc1 = add("fc1", nn::Linear{4, 3});
  nn::Sequential head = add("head", nn::Sequential{nn::ReLU{}, nn::Dropout{0.5}, nn::Linear{3, 2}});
  nn::Param scale = add("scale", tensor({2.0}));
  nn::Buffer seen = add_buffer("seen", zeros({}));
  Net() { set_type("Net"); }
  Tensor forward(Tensor x) { return head(fc1(std::move(x))) * scale; }
};

std::vector<std::string> names(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<std::string> all;
  for (const nn::NamedTensor& t : tensors) all.push_back(t.name);
  return all;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("Modules: members register in their initialiser, names are paths", "[wall][modules]") {
  const LeakGuard guard;
  const Net net;
  CHECK(names(net.named_parameters()) ==
        Names{"scale", "fc1.weight", "fc1.bias", "head.2.weight", "head.2.bias"});
  CHECK(names(net.named_buffers()) == Names{"seen"});
  CHECK(names(net.state_dict()) ==
        Names{"scale", "seen", "fc1.weight", "fc1.bias", "head.2.weight", "head.2.bias"});
  CHECK(net.parameter_count() == 1 + 4 * 3 + 3 + 3 * 2 + 2);
  for (const Tensor& p : net.parameters()) CHECK(p.requires_grad());
  CHECK_FALSE(net.seen->requires_grad());
}

TEST_CASE("Modules: a name is used once, and is a name", "[wall][modules]") {
  const LeakGuard guard;
  struct Twice : nn::Module<Twice> {
    nn::Param a = add("a", ones({1}));
    nn::Linear b = add("a", nn::Linear{1, 1});
  };
  CHECK(mentions(message_of([] { Twice t; }), "'a' is registered twice"));
  struct Dotted : nn::Module<Dotted> {
    nn::Param a = add("a.b", ones({1}));
  };
  CHECK(mentions(message_of([] { Dotted t; }), "is no name for a member"));
}

TEST_CASE("Modules: a copy shares parameters, mode and hooks", "[wall][modules]") {
  const LeakGuard guard;
  Net net;
  const Net copy = net;
  CHECK(copy.fc1.weight->same_as(net.fc1.weight));
  copy.eval();
  CHECK_FALSE(net.is_training());
  int calls = 0;
  const u64 id = copy.register_forward_hook([&](const nn::ModuleBase&, const Tensor&) { ++calls; });
  (void)net(ones({1, 4}));
  CHECK(calls == 1);
  net.remove_hook(id);
  // An independent copy comes from a factory plus a state dict.
  const Net other;
  other.load_state_dict(net.state_dict());
  CHECK(values(other.fc1.weight) == values(net.fc1.weight));
  {
    const NoGrad no_grad;
    Tensor w = other.fc1.weight;
    w.zero_();
  }
  CHECK(values(other.fc1.weight) != values(net.fc1.weight));
}

TEST_CASE("Modules: one with state that is called unregistered inside another throws",
          "[wall][modules]") {
  const LeakGuard guard;
  struct Forgot : nn::Module<Forgot> {
    nn::Linear fc{2, 2};  // no add(): an optimizer would never see it
    Tensor forward(Tensor x) { return fc(std::move(x)); }
  };
  Forgot forgot;
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)forgot(ones({1, 2})); });
  CHECK(mentions(text, "a Linear with parameters is called but not registered"));
  CHECK(mentions(text, "module_test.cpp:" + std::to_string(line)));
  struct Outer : nn::Module<Outer> {
    Forgot inner = add("inner", Forgot{});
    Tensor forward(Tensor x) { return inner(std::move(x)); }
  } outer;
  CHECK(mentions(message_of([&] { (void)outer(ones({1, 2})); }), "[inner] a Linear"));
  // One without state need not be registered.
  struct Free : nn::Module<Free> {
    nn::ReLU act{};
    nn::Param p = add("p", ones({1}));
    Tensor forward(Tensor x) { return act(std::move(x)); }
  } free;
  CHECK_NOTHROW((void)free(ones({1})));
  // And a module may call itself.
  struct Recursive : nn::Module<Recursive> {
    nn::Param p = add("p", tensor({3.0}));
    Tensor forward(Tensor x, int depth) {
      return depth == 0 ? x * p : (*this)(std::move(x), depth - 1);
    }
  } recursive;
  CHECK(recursive(ones({1}), 3).item() == 3);
  // After a throw nothing is left behind.
  nn::Linear fc{2, 2};
  CHECK_NOTHROW((void)fc(ones({1, 2})));
}

TEST_CASE("Modules: assigning a parameter re-seats it for every copy, and so ties weights",
          "[wall][modules]") {
  const LeakGuard guard;
  nn::Linear a{3, 3}, b{3, 3};
  const nn::Linear copy = b;
  b.weight = a.weight;
  CHECK(copy.weight->same_as(a.weight));
  struct Both : nn::Module<Both> {
    nn::Linear one, two;
    Both(nn::Linear x, nn::Linear y) : one(add("one", x)), two(add("two", y)) {}
    Tensor forward(Tensor x) { return two(one(std::move(x))); }
  } net{a, b};
  // One parameter, under its first name; a state dict has every name.
  CHECK(names(net.named_parameters()) == Names{"one.weight", "one.bias", "two.bias"});
  CHECK(net.parameter_count() == 9 + 3 + 3);
  CHECK(names(net.state_dict()) == Names{"one.weight", "one.bias", "two.weight", "two.bias"});
  sum(net(ones({1, 3}))).backward();
  CHECK(a.weight->grad().defined());
  CHECK_THROWS_AS(b.weight = ones({2, 3}), ShapeError);
  const Tensor fresh = ones({3, 3});
  b.weight = fresh;  // a parameter stays one
  CHECK(copy.weight->same_as(fresh));
  CHECK(fresh.requires_grad());
  CHECK(mentions(message_of([&] { b.weight = fresh * 2; }), "a parameter is a leaf"));
  const optim::Sgd opt{net, {.lr = 1}};
  CHECK(
      mentions(message_of([&] { b.weight = a.weight; }), "this parameter belongs to an optimizer"));
}

TEST_CASE("Modules: train, eval and the guard that restores", "[wall][modules]") {
  const LeakGuard guard;
  Net net;
  CHECK(net.is_training());
  net.head.eval();  // a part frozen by hand
  {
    const nn::EvalScope eval(net);
    CHECK_FALSE(net.is_training());
    CHECK_FALSE(net.fc1.is_training());
    const Tensor x = ones({1, 4});
    CHECK(values(net(x)) == values(net(x)));  // no dropout
  }
  CHECK(net.is_training());
  CHECK(net.fc1.is_training());
  CHECK_FALSE(net.head.is_training());  // as it was, not "train"
  net.train();
  CHECK(net.head.is_training());
  try {
    const nn::EvalScope eval(net);
    throw 1;
  } catch (int) {}
  CHECK(net.is_training());
}

TEST_CASE("Modules: to() moves in place, handles keep their identity, a pending backward throws",
          "[wall][modules][tensor]") {
  const LeakGuard guard;
  Net net;
  const Tensor w = net.fc1.weight, seen = net.seen;
  const Values before = values(w);
  const u32 version = w.version();
  net.eval();
  const Tensor y = sum(net(ones({2, 4})));
  y.backward({.retain_graph = true});
  net.to(Device::simt());
  CHECK(w.device() == Device::simt());
  CHECK(seen.device() == Device::simt());
  CHECK(w.same_as(net.fc1.weight));
  CHECK(w.version() > version);
  CHECK(values(w) == before);
  CHECK_FALSE(w.grad().defined());
  CHECK(mentions(message_of([&] { y.backward(); }), "modified in place"));
  CHECK(net(ones({2, 4}, {.device = Device::simt()})).device() == Device::simt());
  net.to(Device::simt());  // nothing to do
  CHECK_THROWS_AS(net.to(Device::cuda(200)), Error);
  CHECK(w.device() == Device::simt());
  net.to(Device::cpu());
  CHECK(values(w) == before);
}

TEST_CASE("Modules: a move that finds no memory has moved nothing", "[wall][modules]") {
  const LeakGuard guard;
  Net net;
  (void)empty({1}, {.device = Device::simt()});
  for (u64 n = 1; n <= 6; ++n) {
    memory::fail_nth_request(n);
    CHECK_THROWS_AS(net.to(Device::simt()), OutOfMemory);
    memory::fail_nth_request(0);
    for (const nn::NamedTensor& t : net.state_dict()) CHECK(t.tensor.device() == Device::cpu());
  }
}

TEST_CASE("Modules: load_state_dict lists all that does not fit and loads nothing then",
          "[wall][modules][checkpoint]") {
  const LeakGuard guard;
  const Net net, other;
  std::vector<nn::NamedTensor> state = other.state_dict();
  const Values before = values(net.scale);
  state[0].name = "scales";
  state[3].tensor = zeros({4});
  const std::string text = message_of([&] { net.load_state_dict(state); });
  CHECK(mentions(text, "missing scale [1]"));
  CHECK(mentions(text, "unexpected scales"));
  CHECK(mentions(text, "fc1.bias is [3] here and [4] in the state"));
  CHECK(values(net.scale) == before);
  CHECK(values(net.fc1.weight) != values(other.fc1.weight));
  const Tensor kept = net.fc1.weight;
  net.load_state_dict(other.state_dict());
  CHECK(kept.same_as(net.fc1.weight));  // values are copied in
  CHECK(values(kept) == values(other.fc1.weight));
  CHECK(kept.requires_grad());
}

TEST_CASE(
    "Modules: operator() captures the line, names the module and runs hooks; forward does "
    "none of it",
    "[wall][modules]") {
  const LeakGuard guard;
  Net net;
  net.eval();
  const Tensor x = ones({1, 4});
  std::vector<std::string> seen;
  for (const nn::ModuleBase* m :
       {static_cast<nn::ModuleBase*>(&net.fc1), static_cast<nn::ModuleBase*>(&net)})
    m->register_forward_hook([&](const nn::ModuleBase& module, const Tensor& y) {
      seen.push_back(str(module.state()->name, y.shape()));
    });
  const int line = __LINE__ + 1;
  const Tensor y = net(x);
  CHECK(seen == Names{"fc1[1, 3]", "[1, 2]"});
  // The operators below have the module's path and the outermost user line.
  const Node* n = y.impl()->node->edges[0].node;
  CHECK(describe(n) == "head.2.linear <- module_test.cpp:" + std::to_string(line));
  (void)net.fc1.forward(x);
  CHECK(seen.size() == 2);
  CHECK(mentions(message_of([&] { (void)net(ones({1, 5})); }), "[linear]"));
}

TEST_CASE("Modules: an error names the module and the line in its forward") {
  static int bug = 0;
  struct Inner : nn::Module<Inner> {
    nn::Linear f = add("f", nn::Linear{4, 4});
    bool narrow = false;
    Tensor forward(Tensor x) {
      if (narrow) return f(x.narrow(1, 0, 2));
      bug = __LINE__ + 1;
      return x.view({3, 3});
    }
  };
  struct Outer : nn::Module<Outer> {
    Inner l = add("l", Inner{});
    Tensor forward(Tensor x) { return l(x); }
  } net;
  const auto here = [](int line) { return "module_test.cpp:" + std::to_string(line); };
  const int line = __LINE__ + 1;
  const auto call = [&] { (void)net(ones({2, 4})); };
  const std::string said = message_of(call);
  INFO(said);
  CHECK(said.ends_with("\n  at " + here(line) + ", in l (" + here(bug) + ")"));
  net.l.narrow = true;
  const std::string inner = message_of(call);  // the last line that is not the library's
  INFO(inner);
  CHECK(mentions(inner, "[linear]"));
  CHECK(mentions(inner, "\n  at " + here(line) + ", in l.f (" + here(bug - 2) + ")"));
}

TEST_CASE("Modules: forward may have any signature", "[wall][modules]") {
  struct Many : nn::Module<Many> {
    nn::Param p = add("p", tensor({2.0}));
    std::pair<Tensor, Tensor> forward(Tensor a, const Tensor& b, double factor) {
      return {a * p, b * factor};
    }
  } many;
  const auto [a, b] = many(tensor({3.0}), tensor({5.0}), 0.5);
  CHECK(a.item() == 6);
  CHECK(b.item() == 2.5);
  struct Index : nn::Module<Index> {
    Tensor forward(int n) { return ones({n}); }
  } index;
  CHECK(index(3).numel() == 3);
}

TEST_CASE("Modules: summary is a tree of names, types, shapes and counts", "[wall][modules]") {
  const Net net;
  CHECK(net.summary() ==
        "Net\n"
        "  scale  [1] f32\n"
        "  seen  [] f32  (buffer)\n"
        "  fc1: Linear  15\n"
        "    weight  [3, 4] f32\n"
        "    bias  [3] f32\n"
        "  head: Sequential  8\n"
        "    0: ReLU\n"
        "    1: Dropout\n"
        "    2: Linear  8\n"
        "      weight  [2, 3] f32\n"
        "      bias  [2] f32\n"
        "parameters: 24\n");
  struct Image : nn::Module<Image> {
    nn::Param w = add("w", ones({8, 3, 2, 2}).to(MemoryFormat::channels_last).clone());
  } image;
  CHECK(mentions(image.summary(), "w  [8, 3, 2, 2] f32 channels_last"));
}

TEST_CASE("Modules: a summary with an input has output shapes, what is trained and what is frozen",
          "[modules]") {
  Net net;
  net.requires_grad_("fc1.*", false);
  const std::string text = net.summary(ones({5, 4}));
  CHECK(text ==
        "Net  -> [5, 2] f32\n"
        "  scale  [1] f32\n"
        "  seen  [] f32  (buffer)\n"
        "  fc1: Linear  15  -> [5, 3] f32\n"
        "    weight  [3, 4] f32  (frozen)\n"
        "    bias  [3] f32  (frozen)\n"
        "  head: Sequential  8  -> [5, 2] f32\n"
        "    0: ReLU  -> [5, 3] f32\n"
        "    1: Dropout  -> [5, 3] f32\n"
        "    2: Linear  8  -> [5, 2] f32\n"
        "      weight  [2, 3] f32\n"
        "      bias  [2] f32\n"
        "parameters: 24 (9 trainable, 15 frozen)\n");
  CHECK(net.is_training());  // as it was
  std::ostringstream out;
  out << net;
  CHECK(out.str() == net.summary());

  // Statistics are not taken, and a result that is no tensor has no shape.
  nn::Sequential norm{nn::BatchNorm1d{2}};
  const std::vector<double> before = values(norm.buffer("0.running_mean"));
  (void)norm.summary(ones({3, 2}));
  CHECK(values(norm.buffer("0.running_mean")) == before);
  struct Pair : nn::Module<Pair> {
    nn::Linear fc = add("fc", nn::Linear{2, 2});
    std::tuple<Tensor, int> forward(Tensor x) { return {fc(x), 1}; }
  } pair;
  CHECK(pair.summary(ones({1, 2})).starts_with("Pair\n  fc: Linear  6  -> [1, 2] f32\n"));
  CHECK_THROWS_AS(net.summary(ones({5, 7})), ShapeError);
  CHECK(std::get<1>(pair(ones({1, 2}))) == 1);  // no hook is left
}
