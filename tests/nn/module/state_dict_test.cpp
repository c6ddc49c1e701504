// Partial loading, freezing by name, and the patterns.
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/memory.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/name_pattern.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

using Names = std::vector<std::string>;
struct Net : nn::Module<Net> {
  nn::Linear body = add("body", nn::Linear{2, 3});
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{3});
  nn::Linear head;
  explicit Net(i64 classes = 4) : head(add("head", nn::Linear{3, classes})) {}
  Tensor forward(Tensor x) { return head(norm(body(std::move(x)))); }
};
std::vector<Values> all_of(const Net& net) {
  std::vector<Values> v;
  for (const auto& t : net.state_dict()) v.push_back(values(t.tensor));
  return v;
}

}  // namespace

TEST_CASE("fits_pattern", "[state_dict]") {
  using nn::fits_pattern;
  CHECK(fits_pattern("*", ""));
  CHECK(fits_pattern("*", "a.b"));
  CHECK(fits_pattern("a.b", "a.b"));
  CHECK_FALSE(fits_pattern("a.b", "a.bc"));
  CHECK_FALSE(fits_pattern("a.b", "aab"));  // a dot is a dot
  CHECK(fits_pattern("*.bias", "layers.0.bias"));
  CHECK_FALSE(fits_pattern("*.bias", "layers.0.bias_hh"));
  CHECK(fits_pattern("layers.?.*", "layers.3.fc.weight"));
  CHECK_FALSE(fits_pattern("layers.?.*", "layers.13.fc.weight"));
  CHECK(fits_pattern("*a*b*", "xxaxxbxx"));
  CHECK(fits_pattern("*aab", "aaaaab"));
  CHECK_FALSE(fits_pattern("*a*b*", "xxbxxaxx"));
  CHECK_FALSE(fits_pattern("", "a"));
  CHECK(fits_pattern("a**", "a"));
}

TEST_CASE("load_state_dict {.strict = false} loads what fits and lists the rest",
          "[state_dict][checkpoint]") {
  const LeakGuard guard;
  const Net old{10}, net{4};
  std::vector<nn::NamedTensor> state = old.state_dict();
  std::erase_if(state, [](const auto& t) { return t.name == "norm.running_var"; });
  state.push_back({"extra", ones({1})});
  const Values head = values(net.head.weight);
  const nn::LoadStateResult rest = net.load_state_dict(state, {.strict = false});
  CHECK_FALSE(rest.complete());
  CHECK(rest.missing == Names{"norm.running_var"});
  CHECK(rest.unexpected == Names{"extra"});
  REQUIRE(rest.misshapen.size() == 2);
  CHECK(rest.misshapen[0].name == "head.weight");
  CHECK(rest.misshapen[0].here == Shape{4, 3});
  CHECK(rest.misshapen[0].there == Shape{10, 3});
  CHECK(rest.misshapen[1].name == "head.bias");
  CHECK(values(net.body.weight) == values(old.body.weight));
  CHECK(values(net.head.weight) == head);
  CHECK(net.load_state_dict(Net{4}.state_dict()).complete());
}

TEST_CASE("load_state_dict: an error half way has loaded nothing, strict or not",
          "[state_dict][checkpoint]") {
  const LeakGuard guard;
  const Net net, other;
  std::vector<nn::NamedTensor> state;  // every value has to be converted
  for (const auto& t : other.state_dict())
    if (is_floating(t.tensor.dtype())) state.push_back({t.name, t.tensor.to(f64)});
  const std::vector<Values> before = all_of(net);
  int failures = 0;
  for (u64 n = 1; n < 50; ++n) {
    memory::fail_nth_request(n);
    bool failed = false;
    try {
      net.load_state_dict(state, {.strict = false});
    } catch (const OutOfMemory&) {
      failed = true;
    }
    memory::fail_nth_request(0);
    if (!failed) break;
    ++failures;
    CHECK(all_of(net) == before);
  }
  CHECK(failures > 2);
  CHECK(all_of(net) != before);
}

TEST_CASE("load_state_dict: one name of a tied tensor is enough; a prefix is seen through",
          "[state_dict]") {
  const LeakGuard guard;
  struct Tied : nn::Module<Tied> {
    nn::Embedding in = add("in", nn::Embedding{5, 3});
    nn::Linear out = add("out", nn::Linear{3, 5, {.bias = false}});
    Tied() { out.weight = in.weight; }
    Tensor forward(Tensor x) { return out(in(std::move(x))); }
  };
  const Tied tied;
  const Tensor w = ones({5, 3});
  CHECK(tied.load_state_dict({{"out.weight", w}}).complete());
  CHECK(values(tied.in.weight) == Values(15, 1));
  CHECK(mentions(message_of([&] { tied.load_state_dict({}); }), "missing in.weight [5, 3]"));
  const Net net;
  const std::string text =
      message_of([&] { net.load_state_dict(nn::add_prefix(Net{}.state_dict(), "module.")); });
  CHECK(mentions(text, "unexpected module.body.weight"));
  CHECK(mentions(text, "Try nn::with_prefix(state, \"module.\")"));
  CHECK_FALSE(message_of([&] {
                net.load_state_dict({{"other.x", w}});
              }).find("Try") != std::string::npos);
}

TEST_CASE("requires_grad_ freezes by pattern; optimizers leave frozen parameters alone",
          "[state_dict][modules]") {
  const LeakGuard guard;
  Net net;
  CHECK(net.requires_grad_("body.*", false) == 2);
  CHECK_FALSE(net.body.weight->requires_grad());
  CHECK(net.head.weight->requires_grad());
  optim::Sgd opt{net, {.lr = 0.1}};
  CHECK(opt.parameters().size() == 4);  // norm and head
  const Values body = values(net.body.weight);
  const auto step = [&] {
    opt.zero_grad();
    sum(square(net(arange(6).to(f32).reshape({3, 2})))).backward();
    opt.step();
  };
  const Values bias = values(net.head.bias);
  step();
  CHECK(values(net.body.weight) == body);
  CHECK(values(net.head.bias) != bias);
  CHECK_FALSE(net.body.weight->grad().defined());
}

TEST_CASE("requires_grad_: frozen under an optimizer and free again", "[state_dict][modules]") {
  const LeakGuard guard;
  Net net;
  optim::Sgd opt{net, {.lr = 0.1, .momentum = 0.9}};
  const auto step = [&] {
    opt.zero_grad();
    sum(square(net(arange(6).to(f32).reshape({3, 2})))).backward();
    opt.step();
  };
  step();
  CHECK(net.requires_grad_("*.weight", false) == 3);
  const Values head = values(net.head.weight), bias = values(net.head.bias);
  step();
  CHECK(values(net.head.weight) == head);  // no momentum either
  CHECK(values(net.head.bias) != bias);
  CHECK(net.requires_grad_("*.weight") == 3);
  step();
  CHECK(values(net.head.weight) != head);
  net.requires_grad_(false);
  for (const Tensor& p : net.parameters()) CHECK_FALSE(p.requires_grad());
  CHECK_FALSE(net.norm.running_mean->requires_grad());
  net.requires_grad_();
  for (const Tensor& p : net.parameters()) CHECK(p.requires_grad());
  CHECK_FALSE(net.norm.running_mean->requires_grad());  // a buffer is no parameter
  CHECK(mentions(message_of([&] { net.requires_grad_("heads.weight", false); }),
                 "no parameter's name fits 'heads.weight'; did you mean 'head.weight'?"));
  CHECK_THROWS_AS(net.requires_grad_("norm.running_*", false), UsageError);
}
