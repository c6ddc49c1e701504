// A convolution from windows: x.unfold twice, one product, and the same output and gradients as
// conv2d.
//
//   example_unfold_conv [--steps N]        N random shapes
#include <cstdio>
#include <cstring>
#include <string>

#include "warptape/warptape.h"

using namespace wt;

// x [N, C, H, W], weight [O, C, K, K] -> [N, O, P, Q]
static Tensor unfold_conv(const Tensor& x, const Tensor& weight, i64 stride) {
  const i64 k = weight.size(2), o = weight.size(0);
  const Tensor windows = x.unfold(2, k, stride).unfold(3, k, stride);  // [N, C, P, Q, K, K]
  const i64 n = windows.size(0), p = windows.size(2), q = windows.size(3);
  const Tensor rows = windows.permute({0, 2, 3, 1, 4, 5}).reshape({n, p * q, x.size(1) * k * k});
  const Tensor y = matmul(rows, weight.reshape({o, -1}).t());  // [N, P Q, O]
  return y.transpose(1, 2).reshape({n, o, p, q});
}

static double largest_difference(const Tensor& a, const Tensor& b) {
  return abs(a - b).max().item();
}

int main(int argc, char** argv) {
  const int shapes = argc == 3 && std::strcmp(argv[1], "--steps") == 0 ? std::stoi(argv[2]) : 8;
  manual_seed(1);
  double worst = 0;
  for (int i = 0; i < shapes; ++i) {
    const i64 stride = 1 + i % 2, kernel = 1 + i % 3, channels = 1 + i % 4;
    const Tensor x = randn({2, channels, 7 + i, 9}, {.dtype = f64, .requires_grad = true});
    const Tensor w = randn({3, channels, kernel, kernel}, {.dtype = f64, .requires_grad = true});
    const Tensor ours = unfold_conv(x, w, stride), y = conv2d(x, w, {.stride = stride});
    const Tensor seed = randn(y.shape(), {.dtype = f64});
    const auto a = grads({ours}, {x, w}, {.grad_outputs = {seed}});
    const auto b = grads({y}, {x, w}, {.grad_outputs = {seed}});
    for (double d : {largest_difference(ours, y), largest_difference(a[0], b[0]),
                     largest_difference(a[1], b[1])})
      worst = d > worst ? d : worst;
  }
  std::printf("%d shapes: outputs and gradients differ by at most %.1e\n", shapes, worst);
  return worst < 1e-12 ? 0 : 1;
}
