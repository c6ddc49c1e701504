// Activations that are x times a gate, where x is infinite or as good as that: values and gradients
// of both orders are the limits on every device, in every dtype and in every loop.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using namespace wt_test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Elements for the loops of vectors and what is left behind them, and one alone.
constexpr i64 kCounts[] = {1, 37};

struct Gate {
  const char* name;
  Tensor (*of)(const Tensor&);
};
const Gate kGates[] = {{"gelu", [](const Tensor& x) { return gelu(x); }},
                       {"gelu_tanh", [](const Tensor& x) { return gelu_tanh(x); }},
                       {"silu", [](const Tensor& x) { return silu(x); }},
                       {"mish", [](const Tensor& x) { return mish(x); }},
                       {"hardswish", [](const Tensor& x) { return hardswish(x); }}};

// Places far out that t can hold. Powers of two, and not the largest: hardswish multiplies by 6.
std::vector<double> far_places(DType t) {
  std::vector<double> v{kInfinity, 0x1p14};
  if (t != f16) v.insert(v.end(), {0x1p43, 0x1p66, 0x1p123});
  if (t == f64) v.insert(v.end(), {0x1p365, 0x1p664});
  for (size_t i = 0, n = v.size(); i < n; ++i) v.push_back(-v[i]);
  return v;
}

void check_all(const Tensor& t, double want) {
  for (const double v : values(t)) CHECK(v == want);
}

}  // namespace

TEST_CASE("activations: far out values and both derivatives are the limits", "[far_gates]") {
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32, f16, bf16})
      for (const Gate& gate : kGates)
        for (const double place : far_places(t))
          for (const i64 n : kCounts) {
            CAPTURE(to_string(d), gate.name, place, n, int(t));
            const Tensor x = full({n}, place, {.dtype = t, .device = d, .requires_grad = true});
            const double there = values(x)[0];
            const Tensor y = gate.of(x);
            check_all(y, place > 0 ? there : 0);
            const Tensor first = grad(sum(y), x, {.create_graph = true});
            check_all(first, place > 0 ? 1 : 0);
            check_all(grad(sum(first), x), 0);
            check_all(grad(sum(gate.of(x)), x), place > 0 ? 1 : 0);  // the kernel, in backward
          }
}

TEST_CASE("activations: NaN stays NaN", "[far_gates]") {
  for (const Device d : kernel_devices())
    for (const Gate& gate : kGates)
      for (const i64 n : kCounts) {
        CAPTURE(to_string(d), gate.name, n);
        const Tensor x = full({n}, NAN, {.dtype = f32, .device = d, .requires_grad = true});
        const Tensor y = gate.of(x);
        CHECK(all(isnan(y)).item() == 1);
        if (gate.name == std::string("hardswish"))
          continue;  // pieces: what comes passes, as relu's
        CHECK(all(isnan(grad(sum(y), x))).item() == 1);
      }
}

TEST_CASE("activations: behind a product they are the same far out", "[far_gates]") {
  for (const Device d : kernel_devices())
    for (const Activation a :
         {Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::hardswish})
      for (const double place : {kInfinity, -kInfinity, 1e20, -1e20}) {
        CAPTURE(to_string(d), int(a), place);
        const Tensor w = ones({16, 1}, {.dtype = f32, .device = d});
        const Tensor x = full({3, 1}, place, {.dtype = f32, .device = d, .requires_grad = true});
        const Tensor y = fused_linear(x, w, {.activation = a});
        check_all(y, place > 0 ? double(float(place)) : 0);
        check_all(grad(sum(y), x), place > 0 ? 16 : 0);
      }
}

TEST_CASE("softsign: 1 and -1 at infinity, and flat there", "[far_gates]") {
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32, f16, bf16})
      for (const i64 n : kCounts) {
        CAPTURE(to_string(d), int(t), n);
        const Tensor x = full({n}, kInfinity, {.dtype = t, .device = d, .requires_grad = true});
        check_all(softsign(x), 1);
        check_all(softsign(-x), -1);
        check_all(grad(sum(softsign(x)), x), 0);
        CHECK(all(isnan(softsign(x * 0))).item() == 1);
      }
}
