// An operator of one's own: swish with a parameter, fitted to GELU. The struct's members are the
// operator's attributes; its backward is written in operators, so higher derivatives follow.
//
//   example_custom_op [--steps N]
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "warptape/warptape.h"

using namespace wt;

// y = x * sigmoid(beta x), beta a number. dy/dx = p + beta x p (1 - p), p = sigmoid(beta x).
struct Swish {
  double beta = 1;
  static constexpr OpInfo info{.name = "swish", .autocast = Autocast::f32};

  Tensor forward(Save& save, const Tensor& x) const {
    save(x);
    return x * sigmoid(beta * x);
  }
  Grads backward(const Saved& saved, const Tensor& gy) const {
    const Tensor p = sigmoid(beta * saved[0]);
    return {gy * (p + beta * saved[0] * p * (1 - p))};
  }
};

static double distance_to_gelu(double beta, const Tensor& x) {
  return mse_loss(apply(Swish{beta}, x), gelu(x)).item();
}

int main(int argc, char** argv) {
  const int steps = argc == 3 && std::strcmp(argv[1], "--steps") == 0 ? std::stoi(argv[2]) : 40;

  // Both derivatives against finite differences, before anything is trained with it.
  const Tensor points = linspace(-3, 3, 7, {.dtype = f64}).set_requires_grad();
  const auto call = [](std::span<const Tensor> in) { return apply(Swish{1.5}, in[0]); };
  const GradCheck first = grad_check(call, {points}), second = grad_grad_check(call, {points});
  if (!first || !second) {
    std::printf("a derivative is wrong: %s%s\n", first.message.c_str(), second.message.c_str());
    return 1;
  }

  // beta is an attribute, no tensor: a search by thirds finds the swish nearest to GELU.
  const Tensor x = linspace(-4, 4, 257, {.dtype = f64});
  double low = 1, high = 3;
  for (int i = 0; i < steps; ++i) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    (distance_to_gelu(a, x) < distance_to_gelu(b, x) ? high : low) =
        distance_to_gelu(a, x) < distance_to_gelu(b, x) ? b : a;
  }
  const double beta = (low + high) / 2;
  std::printf("swish(beta = %.3f) is nearest to gelu: mean squared distance %.2e\n", beta,
              distance_to_gelu(beta, x));
  return std::isfinite(beta) ? 0 : 1;
}
