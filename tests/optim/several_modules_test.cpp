// One optimizer over several modules, and over tensors without a module.
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/operators.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/named_parameters.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
std::vector<std::string> names_of(const std::vector<nn::NamedTensor>& list) {
  std::vector<std::string> names;
  for (const auto& p : list) names.push_back(p.name);
  return names;
}
using Names = std::vector<std::string>;
}  // namespace

TEST_CASE("One optimizer of two modules steps both, with groups and state by their names",
          "[optim][wall]") {
  const LeakGuard guard;
  manual_seed(1);
  nn::Linear encoder{2, 3, {.dtype = f64}}, decoder{3, 2, {.dtype = f64}};
  optim::Sgd opt{nn::named_parameters({{"encoder", encoder}, {"decoder", decoder}}),
                 {.lr = 0.1, .momentum = 0.9, .groups = {{.names = {"decoder.*"}, .lr = 0.0}}}};
  CHECK(names_of(opt.parameters()) ==
        Names{"encoder.weight", "encoder.bias", "decoder.weight", "decoder.bias"});
  const Values before = values(encoder.weight), fixed = values(decoder.weight);
  const Tensor x = randn({4, 2}, {.dtype = f64});
  mse_loss(decoder(encoder(x)), x).backward();
  opt.step();
  CHECK(values(encoder.weight) != before);
  CHECK(values(decoder.weight) == fixed);
  const auto state = opt.state();
  CHECK(std::any_of(state.begin(), state.end(),
                    [](const auto& t) { return t.name == "optim.momentum.encoder.weight"; }));
}

TEST_CASE("Lists of parameters: what two modules share comes once, what is frozen does not",
          "[optim]") {
  const LeakGuard guard;
  nn::Linear a{2, 2}, b{2, 2};
  b.weight = a.weight;
  b.requires_grad_("bias", false);
  CHECK(names_of(nn::named_parameters({{"a", a}, {"b", b}})) == Names{"a.weight", "a.bias"});
  CHECK(mentions(message_of([&] {
                   (void)nn::named_parameters({{"a", a}, {"a", b}});
                 }),
                 "[named_parameters] 'a' names two modules"));
}

TEST_CASE("One optimizer of tensors, by their places", "[optim][wall]") {
  const LeakGuard guard;
  Tensor w = ones({2}, {.dtype = f64}), b = ones({}, {.dtype = f64});
  w.set_requires_grad();
  b.set_requires_grad();
  optim::Sgd opt{nn::named_parameters({w, b}), {.lr = 0.5}};
  CHECK(names_of(opt.parameters()) == Names{"0", "1"});
  (sum(w) + b * 2).backward();
  opt.step();
  CHECK(values(w) == Values{0.5, 0.5});
  CHECK(values(b) == Values{0});
}

TEST_CASE("Two optimizers that share a parameter: the older one refuses to step, naming it",
          "[optim][wall]") {
  const LeakGuard guard;
  nn::Linear a{2, 2}, b{2, 2};
  optim::Sgd both{nn::named_parameters({{"a", a}, {"b", b}}), {.lr = 0.5}};
  optim::AdamW second{b, {.lr = 0.5}};
  sum(b(a(ones({1, 2})))).backward();
  const Values before = values(a.weight);
  CHECK(mentions(message_of([&] { both.step(); }),
                 "parameter b.weight was taken over by another optimizer"));
  CHECK(values(a.weight) == before);
  CHECK_NOTHROW(second.step());
}
