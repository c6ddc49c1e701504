// weight_norm and spectral_norm: PyTorch's numbers, state, clones, moves, training, removal.
#include "warptape/nn/weight_norm.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/operators.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/module_state.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/nn/torch_module.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;
using nn::utils::spectral_norm;
using nn::utils::weight_norm;

#define REFUSES(text, ...) CHECK(mentions(message_of([&] { (void)(__VA_ARGS__); }), text))

namespace {

std::vector<std::string> names_of(const nn::ModuleBase& m) {
  std::vector<std::string> names;
  for (const auto& t : m.state_dict()) names.push_back(t.name);
  return names;
}
using Names = std::vector<std::string>;

double furthest(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item(); }

}  // namespace

TEST_CASE("PyTorch's modules: weight_norm and spectral_norm", "[layers][torch][weight_norm]") {
  const LeakGuard guard;
  check_torch("weight_norm", weight_norm(nn::Linear{3, 2, {.dtype = f64}}));
  check_torch("weight_norm_dim",
              weight_norm(nn::Conv2d{2, 3, {.kernel = 2, .dtype = f64}}, "weight", {.dim = -3}));
  check_torch("weight_norm_whole",
              weight_norm(nn::Linear{3, 2, {.dtype = f64}}, "weight", {.dim = {}}));
  nn::LSTM lstm = weight_norm(nn::LSTM{3, 2, {.dtype = f64}}, "weight_hh_l0");
  check_torch("weight_norm_lstm", lstm, [&](const Tensors& x) -> Tensors {
    const nn::LstmResult r = lstm(x[0]);
    return {r.output, r.h, r.c};
  });
  check_torch("spectral_norm", spectral_norm(nn::Linear{3, 4, {.dtype = f64}}));
  check_torch("spectral_norm_conv", spectral_norm(nn::Conv2d{2, 3, {.kernel = 2, .dtype = f64}},
                                                  "weight", {.n_power_iterations = 3}));
  check_torch("spectral_norm_transposed",
              spectral_norm(nn::ConvTranspose2d{2, 3, {.kernel = 2, .dtype = f64}}));
  check_torch_eval("spectral_norm_eval", spectral_norm(nn::Linear{3, 4, {.dtype = f64}}));
}

TEST_CASE("weight_norm: the module computes what it did, under other names",
          "[weight_norm][modules]") {
  const LeakGuard guard;
  manual_seed(1);
  nn::Linear fc{3, 4};
  const Tensor x = randn({5, 3}), before = fc(x).detach();
  const Tensor w = fc.weight.tensor();
  weight_norm(fc);
  CHECK(names_of(fc) == Names{"bias", "weight_g", "weight_v"});
  CHECK(fc.parameter("weight_v").tensor().same_as(w));
  CHECK(fc.parameter("weight_g")->shape() == Shape{4, 1});
  CHECK(furthest(fc(x), before) < 1e-6);
  CHECK_FALSE(fc.weight.defined());  // between calls
  CHECK(fc.parameters().size() == 3);
  CHECK(names_of(fc).size() == 3);
  nn::utils::remove_weight_norm(fc);
  CHECK(names_of(fc) == Names{"weight", "bias"});
  CHECK(fc.weight->requires_grad());
  CHECK(fc.state()->hooks.empty());
  CHECK(furthest(fc.forward(x), before) < 1e-6);
  weight_norm(fc);  // again
  CHECK(furthest(fc(x), before) < 1e-6);
}

TEST_CASE("spectral_norm: the largest singular value becomes 1", "[weight_norm][modules]") {
  const LeakGuard guard;
  manual_seed(2);
  // Singular values 3 and 1.
  nn::Linear fc{2, 2, {.bias = false, .dtype = f64}};
  {
    const NoGrad no_grad;
    Tensor w = fc.weight;
    w.copy_(tensor({{0.0, -3.0}, {1.0, 0.0}}, {.dtype = f64}));
  }
  spectral_norm(fc, "weight", {.n_power_iterations = 30});
  CHECK(names_of(fc) == Names{"weight_orig", "weight_u", "weight_v"});
  CHECK(fc.named_buffers().size() == 2);
  const Tensor x = tensor({{1.0, 0.0}, {0.0, 1.0}}, {.dtype = f64});
  CHECK(furthest(fc(x), tensor({{0.0, 1 / 3.0}, {-1.0, 0.0}}, {.dtype = f64})) < 1e-12);
  const Values u = values(fc.buffer("weight_u"));
  fc.eval();  // no iteration
  const Tensor y = fc(x);
  CHECK(values(fc.buffer("weight_u")) == u);
  // Two calls before one backward: each has the vectors that it was computed with.
  fc.train();
  const Tensor first = fc(x), second = fc(x);
  CHECK_NOTHROW((sum(first) + sum(second)).backward());
  nn::utils::remove_spectral_norm(fc);
  CHECK(names_of(fc) == Names{"weight"});
  CHECK(furthest(fc(x), y) < 1e-12);
}

TEST_CASE("Computed weights: clones, state dicts, dtypes and optimizers",
          "[weight_norm][modules]") {
  const LeakGuard guard;
  manual_seed(3);
  struct Net : nn::Module<Net> {
    nn::Linear a = add("a", weight_norm(nn::Linear{3, 4}));
    nn::Linear b = add("b", spectral_norm(nn::Linear{4, 2}));
    Tensor forward(Tensor x) { return b(relu(a(std::move(x)))); }
  };
  Net net;
  const Tensor x = randn({6, 3}), y = randn({6, 2});
  (void)net(x);
  Net copy = net.clone();
  const nn::EvalScope eval(net), eval_copy(copy);
  CHECK(values(net(x)) == values(copy(x)));
  {
    const NoGrad no_grad;
    Tensor g = copy.a.parameter("weight_g");
    g.zero_();
  }
  CHECK(values(net(x)) != values(copy(x)));
  Net other;
  other.load_state_dict(net.state_dict());
  other.eval();
  CHECK(values(net(x)) == values(other(x)));
  other.to(f64);
  CHECK(other(x.to(f64)).dtype() == f64);
  optim::Sgd opt{net, {.lr = 0.1}};
  net.train();
  double first = 0, last = 0;
  for (int i = 0; i < 30; ++i) {
    opt.zero_grad();
    const Loss loss = mse_loss(net(x), y);
    loss.backward();
    opt.step();
    last = loss.item();
    if (i == 0) first = last;
  }
  CHECK(last < 0.8 * first);
  REFUSES("[remove_weight_norm] parameter weight_g belongs to an optimizer",
          nn::utils::remove_weight_norm(net.a));
  REFUSES("[weight_norm] parameter bias belongs to an optimizer", weight_norm(net.a, "bias"));
}

TEST_CASE("Computed weights refuse what does not fit", "[weight_norm][modules]") {
  const LeakGuard guard;
  nn::Linear fc{3, 4, {.bias = false}};
  REFUSES("[weight_norm] Linear has no parameter 'wieght'", weight_norm(fc, "wieght"));
  REFUSES("parameter 'bias' of Linear is undefined or computed already", weight_norm(fc, "bias"));
  REFUSES("[weight_norm] dim 2 of a parameter [4, 3]", weight_norm(fc, "weight", {.dim = 2}));
  REFUSES("[spectral_norm] dim -3 of a parameter [4, 3]", spectral_norm(fc, "weight", {.dim = -3}));
  REFUSES("n_power_iterations must be at least 1, got 0",
          spectral_norm(fc, "weight", {.n_power_iterations = 0}));
  REFUSES("[remove_weight_norm] Linear does not compute 'weight' so",
          nn::utils::remove_weight_norm(fc));
  CHECK(names_of(fc) == Names{"weight"});
  weight_norm(fc);
  REFUSES("parameter 'weight' of Linear is undefined or computed already", weight_norm(fc));
  REFUSES("[spectral_norm] parameter 'weight' of Linear is undefined or computed already",
          spectral_norm(fc));
  REFUSES("[remove_spectral_norm] Linear does not compute 'weight' so",
          nn::utils::remove_spectral_norm(fc));
  nn::BatchNorm1d norm{3};
  REFUSES("[weight_norm] BatchNorm1d has no parameter 'running_mean'",
          weight_norm(norm, "running_mean"));
}
