// Two operators of one's own in a network that is trained: rounding to a grid, whose gradient is
// passed straight through (Bengio et al., 2013, arXiv:1308.3432), for weights of few bits, and a
// swish whose parameter is learned (Ramachandran et al., 2017, arXiv:1710.05941). custom_op.cpp is
// about one alone.
//
//   example_custom_ops [--steps N] [--device cpu|simt|cuda]
#include "same_start.h"

using namespace wt;

// round(clamp(x, -1, 1) / step) * step; dy/dx is taken as 1 on [-1, 1].
struct Quantize {
  double step;
  static constexpr OpInfo info{.name = "quantize"};

  Tensor forward(Save& save, const Tensor& x) const {
    save(x);
    return round(clamp(x, -1, 1) / step) * step;
  }
  Grads backward(const Saved& saved, const Tensor& gy) const { return {gy * le(abs(saved[0]), 1)}; }
};

// x sigmoid(beta x) of x [N, C] and beta [C].
struct SwishOp {
  static constexpr OpInfo info{.name = "swish"};

  Tensor forward(Save& save, const Tensor& x, const Tensor& beta) const {
    save(x);
    save(beta);
    return x * sigmoid(beta * x);
  }
  Grads backward(const Saved& saved, const Tensor& gy) const {
    const Tensor &x = saved[0], &beta = saved[1];
    const Tensor p = sigmoid(beta * x), slope = p * (1 - p);
    return {gy * (p + beta * x * slope), sum(gy * square(x) * slope, 0)};
  }
};

struct QuantizedLinear : nn::Module<QuantizedLinear> {
  nn::Linear fc;
  QuantizedLinear(i64 in, i64 out) : fc(add("fc", nn::Linear{in, out})) {}
  Tensor forward(Tensor x) { return linear(x, apply(Quantize{0.125}, fc.weight), fc.bias); }
};

struct Swish : nn::Module<Swish> {
  nn::Param beta;
  explicit Swish(i64 features) : beta(add("beta", ones({features}))) {}
  Tensor forward(Tensor x) { return apply(SwishOp{}, x, beta); }
};

int main(int argc, char** argv) {
  const Tensor points = linspace(-3, 3, 12, {.dtype = f64}).reshape({4, 3}).set_requires_grad();
  const Tensor betas = tensor({0.5, 1.0, 2.0}, {.dtype = f64, .requires_grad = true});
  const GradCheck check = grad_check(
      [](std::span<const Tensor> in) { return apply(SwishOp{}, in[0], in[1]); }, {points, betas});
  if (!check) {
    std::printf("a derivative is wrong: %s\n", check.message.c_str());
    return 1;
  }

  Losses losses(torch_losses::custom_ops, argc, argv);
  nn::Sequential net{QuantizedLinear{2, 24}, Swish{24}, QuantizedLinear{24, 24}, Swish{24},
                     nn::Linear{24, 1}};
  same_start(net);
  const Tensor x = numbers({64, 2}, 100);
  const Tensor y = gt(prod(x, 1, {.keep_dim = true}), 0).to(f64);
  optim::Adam opt{net, {.lr = 1e-2}};
  for (int step = 0; step < losses.steps(); ++step) {
    const auto loss = binary_cross_entropy_with_logits(net(x), y);
    opt.zero_grad();
    loss.backward();
    opt.step();
    losses.add(loss.item());
  }
  return losses.compare();
}
