// Mistakes of training loops that frameworks let pass: each is refused by a message that names the
// fix, and nothing has changed. The numbers are those of the traps list.
#include <cmath>

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/grad_scaler.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/scaled_net.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt_test;

namespace {

struct Loop {
  ScaledNet net = scaled_net(Device::cpu());
  optim::Sgd opt{net, {.lr = 0.01}};
  Labelled batch = labelled(16, Device::cpu());
  Loss loss() { return cross_entropy(net(batch.x), batch.y); }
  // The text of what f throws; the parameters are as before.
  std::string refused(const std::function<void()>& f) {
    const std::vector<double> before = values_of(net);
    const std::string text = message_of(f);
    CHECK(values_of(net) == before);
    return text;
  }
};

}  // namespace

TEST_CASE("trap T1: a derivative without create_graph inside a loss", "[trap]") {
  manual_seed(1);
  nn::Linear net{1, 1};
  const Tensor x = rand({8, 1}).set_requires_grad();
  const auto derivative = [&](bool create_graph) {
    return grad(tanh(net(x)).sum(), x, {.create_graph = create_graph});
  };
  const Tensor ux = derivative(false);
  const std::string text =
      message_of([&] { add(mse_loss(net(x), x).mean(), sum(mul(ux, ux))).backward(); });
  CHECK(mentions(text, "took without create_graph"));
  CHECK(mentions(text, "Try {.create_graph = true}"));
  CHECK(!net.weight.tensor().grad().defined());
  // Through views, in-place operators, several outputs, and taken under NoGrad.
  for (const auto& make : std::vector<std::function<Tensor()>>{
           [&] {
             return derivative(false).reshape({2, 4}).select(0, 1).sum();
           },
           [&] {
             return sum(zeros({8, 1}).add_(derivative(false)));
           },
           [&] { return split(derivative(false), 4, 0)[1].sum(); },
           [&] {
             return cat({derivative(false), ones({1, 1})}, 0).sum();
           },
           [&] {
             const Tensor y = tanh(net(x)).sum();
             const NoGrad no_grad;
             return grad(y, x);
           }}) {
    const Tensor part = make();
    CHECK(mentions(message_of([&] { add(sum(net(x)), sum(part)).backward(); }), "create_graph"));
  }
  // Meant as constants: detached, or computed without recording (weights of loss terms).
  const auto is_right = [&](const Tensor& c) {
    net.zero_grad();
    mul(sum(net(x)), sum(c)).backward();
    return net.weight.tensor().grad().defined();
  };
  CHECK(is_right(derivative(false).detach()));
  const Tensor d = derivative(false);
  const Tensor weight = [&] {
    const NoGrad no_grad;
    return mean(abs(d));
  }();
  CHECK(is_right(weight));
  CHECK(is_right(derivative(true)));
}

TEST_CASE("trap T8: a second step without a new backward", "[trap]") {
  Loop l;
  l.loss().backward();
  l.opt.step();
  const std::string text = l.refused([&] { l.opt.step(); });
  CHECK(mentions(text, "[Sgd] step() a second time with the same gradients"));
  CHECK(mentions(text, "Try zero_grad() and loss.backward() between two steps"));
  l.loss().backward();  // without zero_grad they add up, which some want
  CHECK_NOTHROW(l.opt.step());
  l.opt.zero_grad();
  CHECK(mentions(l.refused([&] { l.opt.step(); }), "no backward() came since zero_grad()"));
  // Gradients that a program writes itself are new ones.
  for (const auto& p : l.net.parameters()) p.set_grad(ones(p.shape()));
  CHECK_NOTHROW(l.opt.step());
  CHECK(!l.refused([&] { l.opt.step(); }).empty());
}

TEST_CASE("trap T8: a scaler's step beside a bare one, and a scale that nobody divides out",
          "[trap]") {
  Loop l;
  optim::GradScaler scaler;
  scaler.scale(l.loss()).backward();
  std::string text = l.refused([&] { l.opt.step(); });
  CHECK(mentions(text, "that a GradScaler has scaled: that of first.weight"));
  CHECK(mentions(text, "Try scaler.step(opt)"));
  scaler.unscale_(l.opt);
  CHECK(mentions(l.refused([&] { l.opt.step(); }), "scaler.step(opt)"));
  scaler.step(l.opt);
  CHECK(mentions(l.refused([&] { scaler.step(l.opt); }), "step() was called for this optimizer"));
  CHECK(mentions(l.refused([&] { l.opt.step(); }), "scaler.step(opt)"));
  scaler.update();
  CHECK(mentions(l.refused([&] { scaler.update(); }), "update() without a step()"));
  CHECK(mentions(l.refused([&] { scaler.step(l.opt); }), "a second time"));
  // Gradients that this scaler has not scaled.
  l.opt.zero_grad();
  l.loss().backward();
  CHECK(mentions(l.refused([&] { scaler.step(l.opt); }), "Try scaler.scale(loss).backward()"));
  CHECK(mentions(l.refused([&] { scaler.unscale_(l.opt); }), "has not scaled"));
  CHECK_NOTHROW(l.opt.step());
}

TEST_CASE("unscale_ twice, after step, and a backward after it", "[trap]") {
  Loop l;
  optim::GradScaler scaler;
  CHECK(mentions(l.refused([&] { scaler.unscale_(l.opt); }), "without a gradient"));
  scaler.scale(l.loss()).backward();
  scaler.unscale_(l.opt);
  CHECK(mentions(l.refused([&] { scaler.unscale_(l.opt); }), "was called for this optimizer"));
  CHECK(mentions(l.refused([&] { scaler.scale(l.loss()).backward(); }),
                 "Try unscale_() after the last backward() of the step"));
  scaler.step(l.opt);
  CHECK(mentions(l.refused([&] { scaler.unscale_(l.opt); }), "after step()"));
  scaler.update();
}

TEST_CASE("scaled and unscaled gradients do not add up", "[trap]") {
  Loop l;
  optim::GradScaler scaler, other;
  l.loss().backward();
  const std::vector<double> before = l.net.last.bias.tensor().grad().to_vector<double>();
  CHECK(mentions(l.refused([&] { scaler.scale(l.loss()).backward(); }), "what was never scaled"));
  CHECK(l.net.last.bias.tensor().grad().to_vector<double>() == before);
  l.opt.zero_grad();
  scaler.scale(l.loss()).backward();
  CHECK(mentions(l.refused([&] { l.loss().backward(); }), "what a GradScaler has scaled"));
  CHECK(mentions(l.refused([&] { other.scale(l.loss()).backward(); }), "another scale"));
  // Zeros of zero_grad(set_to_none = false) fit any scale.
  l.opt.zero_grad({.set_to_none = false});
  CHECK_NOTHROW(scaler.scale(l.loss()).backward());
}

TEST_CASE("trap T20: clipping scaled gradients", "[trap]") {
  Loop l;
  optim::GradScaler scaler;
  scaler.scale(l.loss()).backward();
  for (const auto& clip : std::vector<std::function<void()>>{
           [&] { (void)optim::clip_factor(l.opt, 1.0); },
           [&] { (void)optim::clip_grad_norm_(l.net, 1.0); },
           [&] { optim::clip_grad_value_(l.net, 1.0); },
           [&] { scaler.step(l.opt, {.grad_factor = tensor(0.5, {.dtype = f64})}); }})
    CHECK(mentions(l.refused(clip), "unscale_(opt) before"));
}

TEST_CASE("trap T9: TrainStep divides what it accumulates, a raw loop adds it up", "[trap]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  constexpr double kRate = 0.01;
  const Labelled batch = labelled(16, d);
  // How far one step of SGD moves the last bias.
  const auto moved = [&](const std::function<void(ScaledNet&, optim::Sgd&)>& step) {
    ScaledNet net = scaled_net(d);
    optim::Sgd opt{net, {.lr = kRate}};
    const std::vector<double> from = net.last.bias.tensor().to_vector<double>();
    step(net, opt);
    std::vector<double> by = net.last.bias.tensor().to_vector<double>();
    for (size_t i = 0; i < by.size(); ++i) by[i] -= from[i];
    return by;
  };
  const auto in_parts = [&](i64 k) {
    return moved([&](ScaledNet& net, optim::Sgd& opt) {
      TrainStep step{net, opt, {.micro_batches = k}};
      step(batch, [&](const Labelled& b) { return cross_entropy(net(b.x), b.y); });
    });
  };
  const auto raw = [&](i64 k, double factor) {
    return moved([&](ScaledNet& net, optim::Sgd& opt) {
      for (i64 i = 0; i < k; ++i) {
        const Labelled part = batch.narrow(16 / k * i, 16 / k);
        (factor * cross_entropy(net(part.x), part.y)).backward();
      }
      opt.step();
    });
  };
  const std::vector<double> whole = in_parts(1), parts = in_parts(4), summed = raw(4, 1),
                            divided = raw(4, 0.25);
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK(std::abs(parts[i] - whole[i]) < 1e-6);
    CHECK(std::abs(divided[i] - whole[i]) < 1e-6);
    CHECK(std::abs(summed[i] - 4 * whole[i]) < 4e-6);  // as with four times the rate
  }
  CHECK(std::abs(whole[0]) > 1e-4);
}

TEST_CASE("trap T10: stepping at batch 0 of a window", "[trap]") {
  Loop l;
  std::string text;
  int i = 0;
  text = message_of([&] {
    for (; i < 12; ++i) {
      l.loss().backward();
      if (i % 4 == 0) {
        l.opt.step();
        l.opt.zero_grad();
      }
    }
  });
  CHECK(i == 8);
  CHECK(mentions(text, "batch 0 was stepped on alone"));
  CHECK(mentions(text, "(i + 1) % 4 == 0"));
  Loop right;
  for (i = 0; i < 16; ++i) {
    right.loss().backward();
    if ((i + 1) % 4 == 0) {
      right.opt.step();
      right.opt.zero_grad();
    }
  }
  CHECK(right.opt.applied() == 4);
}

TEST_CASE("trap T11: the last, shorter window is dropped by zero_grad", "[trap]") {
  Loop l;
  const auto epoch = [&](int batches) {
    for (int i = 0; i < batches; ++i) {
      l.loss().backward();
      if ((i + 1) % 4 == 0) {
        l.opt.step();
        l.opt.zero_grad();
      }
    }
  };
  epoch(10);
  const std::vector<double> before = l.net.last.bias.tensor().grad().to_vector<double>();
  const std::string text = l.refused([&] { l.opt.zero_grad(); });
  CHECK(mentions(text, "the gradients of 2 backward() calls would be lost"));
  CHECK(mentions(text, "after every 4"));
  CHECK(l.net.last.bias.tensor().grad().to_vector<double>() == before);
  CHECK_NOTHROW(l.opt.zero_grad({.discard = true}));
  CHECK_NOTHROW(l.opt.zero_grad());  // nothing is pending
}

// The discriminator steps after two backwards; then the generator's backward passes through it.
TEST_CASE("trap T11: a GAN's discriminator has no shorter window", "[trap]") {
  Loop l;
  for (int i = 0; i < 5; ++i) {
    CHECK_NOTHROW(l.opt.zero_grad());
    l.loss().backward();
    l.loss().backward();
    l.opt.step();
    l.loss().backward();  // of the other network's step
  }
  l.opt.zero_grad();
  l.loss().backward();
  const std::string text = l.refused([&] { l.opt.zero_grad(); });
  CHECK(mentions(text, "the gradients of 1 backward() calls would be lost"));
}

TEST_CASE("trap T30: f16 without loss scaling", "[trap]") {
  Loop l;
  {
    const AutocastScope autocast(DType::f16);
    l.loss().backward();
  }
  std::string text = l.refused([&] { l.opt.step(); });
  CHECK(mentions(text, "went through f16 without loss scaling: that of"));
  CHECK(mentions(text, "optim::GradScaler, TrainStep's {.precision = f16}, or bf16"));
  l.opt.zero_grad();
  {
    const AutocastScope autocast(DType::bf16);
    l.loss().backward();
  }
  CHECK_NOTHROW(l.opt.step());
  // Inside a step that does not scale.
  for (const DType t : {f32, bf16}) {
    TrainStep step{l.net, l.opt, {.precision = t}};
    text = l.refused([&] {
      step(l.batch, [&](const Labelled& b) {
        const AutocastScope autocast(DType::f16);
        return cross_entropy(l.net(b.x), b.y);
      });
    });
    CHECK(mentions(text, "Try TrainStep's {.precision = f16}"));
    CHECK_NOTHROW(step(l.batch, [&](const Labelled& b) {
      const AutocastScope autocast(DType::bf16);
      return cross_entropy(l.net(b.x), b.y);
    }));
  }
}

TEST_CASE("trap T30: an optimizer of 16-bit parameters", "[trap]") {
  for (const DType t : {f16, bf16}) {
    nn::Linear net{2, 2};
    net.to(t);
    const std::string text = message_of([&] { optim::Sgd{net, {.lr = 0.1}}; });
    CHECK(mentions(text, str("DtypeError: [optimizer] parameter weight is ", dtype_name(t),
                             ", of an optimizer it is f32 or f64")));
    CHECK(mentions(text, str("Try net.to(f32) and TrainStep's {.precision = ", dtype_name(t))));
  }
}
