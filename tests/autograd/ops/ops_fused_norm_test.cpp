// Normalisation by channels with an activation, beside what their rows in op_cases show: the bits
// of the two operators one by one, in both orders of memory, and what is held.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/channel_norm.h"
#include "warptape/autograd/ops/conv.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/save_policy.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/nn/norms.h"
#include "warptape/tests/op_cases/cases/activation_case.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"
#include "warptape/tests/tolerance.h"

using namespace wt_test;

namespace {

Tensor behind(Activation f, const Tensor& z) {
  switch (f) {
    case Activation::relu:
      return relu(z);
    case Activation::gelu:
      return gelu(z);
    case Activation::gelu_tanh:
      return gelu_tanh(z);
    case Activation::silu:
      return silu(z);
    case Activation::relu6:
      return relu6(z);
    case Activation::hardswish:
      return hardswish(z);
    default:
      return z;
  }
}

enum class Norm { training, evaluation, group, instance };

Tensor normed(Norm norm, Activation f, bool fused, const Tensor& x, const Tensor& w,
              const Tensor& b, const Tensor& mean, const Tensor& var) {
  const BatchNormOptions batch{.weight = w,
                               .bias = b,
                               .running_mean = mean,
                               .running_var = var,
                               .training = norm == Norm::training};
  const GroupNormOptions group{.weight = w, .bias = b};
  const InstanceNormOptions instance{
      .weight = w, .bias = b, .running_mean = mean, .running_var = var};
  if (norm == Norm::group)
    return fused ? fused_group_norm(x, 3, f, group) : behind(f, group_norm(x, 3, group));
  if (norm == Norm::instance)
    return fused ? fused_instance_norm(x, f, instance) : behind(f, instance_norm(x, instance));
  return fused ? fused_batch_norm(x, f, batch) : behind(f, batch_norm(x, batch));
}

Tensor filled(const Shape& shape, u64 seed, DType t, Device d) {
  return to_tensor(random_values(numel_of(shape), seed), shape, t, d);
}

// Values, gradients, running statistics.
std::vector<Values> outcome(Norm norm, Activation f, bool fused, const Shape& shape, DType t,
                            Device d, bool nhwc) {
  const auto in_order = [&](const Tensor& v) {
    return nhwc ? contiguous(v, MemoryFormat::channels_last) : v;
  };
  const i64 c = shape[1];
  const Tensor x = in_order(filled(shape, 1, t, d)).set_requires_grad();
  const Tensor w = filled({c}, 2, t, d).set_requires_grad();
  const Tensor b = filled({c}, 3, t, d).set_requires_grad();
  const Tensor mean = zeros({c}, {.device = d}), var = ones({c}, {.device = d});
  const Tensor y = normed(norm, f, fused, x, w, b, mean, var);
  CHECK(y.strides() == x.strides());
  std::vector<Values> all{to_doubles(y), to_doubles(mean), to_doubles(var)};
  const Tensor gy = in_order(filled(shape, 4, t, d));
  for (const Tensor& g : grads({y}, {x, w, b}, {.grad_outputs = {gy}}))
    all.push_back(to_doubles(g));
  return all;
}

}  // namespace

TEST_CASE("fused norms: values, statistics and gradients of norm and activation, one by one") {
  for (const Device d : kernel_devices())
    for (const Norm norm : {Norm::training, Norm::evaluation, Norm::group, Norm::instance})
      for (const Activation f : kAllActivations)
        for (const DType t : {f64, f32, f16, bf16})
          for (const bool nhwc : {false, true}) {
            CAPTURE(to_string(d), int(norm), name_of(f), dtype_name(t), nhwc);
            const Shape shape{3, 9, 5, 7};
            const std::vector<Values> one = outcome(norm, f, true, shape, t, d, nhwc);
            const std::vector<Values> two = outcome(norm, f, false, shape, t, d, nhwc);
            CHECK(one[1] == two[1]);
            CHECK(one[2] == two[2]);
            // relu and relu6 round nothing, so that where z is stored as it is computed the bits
            // are the same. What smooth ones compute may be contracted in another way, and 16 bits
            // are rounded once less.
            const bool exact =
                is_told_from_result(f) && (t == f32 || t == f64) && d.kind != DeviceKind::cuda;
            for (size_t k = 0; k < one.size(); ++k) {
              if (exact) CHECK(one[k] == two[k]);
              double largest = 1;
              for (double v : two[k]) largest = std::max(largest, std::fabs(v));
              for (size_t i = 0; i < one[k].size(); ++i) {
                CAPTURE(k, i);
                REQUIRE(close(one[k][i], two[k][i],
                              gradient_bound(t, double(numel_of(shape)) / 9, two[k][i], largest)));
              }
            }
          }
}

TEST_CASE("fused norms: a second derivative is that of norm and activation") {
  for (const Activation f : kAllActivations) {
    const LeakGuard guard;
    const Device d = Device::cpu();
    const Tensor x = filled({4, 3, 5}, 1, f64, d).set_requires_grad();
    const Tensor w = filled({3}, 2, f64, d).set_requires_grad();
    const Tensor b = filled({3}, 3, f64, d).set_requires_grad();
    const auto second = [&](bool fused) {
      const Tensor y = normed(Norm::training, f, fused, x, w, b, {}, {});
      const Tensor g = grads({sum(square(y))}, {x}, {.create_graph = true})[0];
      std::vector<Values> all;
      for (const Tensor& v : grads({sum(square(g))}, {x, w, b})) all.push_back(to_doubles(v));
      return all;
    };
    const std::vector<Values> one = second(true), two = second(false);
    for (size_t k = 0; k < one.size(); ++k)
      for (size_t i = 0; i < one[k].size(); ++i) {
        CAPTURE(name_of(f), k, i);
        CHECK(close(one[k][i], two[k][i], 1e-9 * (1 + std::fabs(two[k][i]))));
      }
  }
}

TEST_CASE("fused norms: behind a convolution its output is held, and nothing else") {
  for (const Device d : kernel_devices())
    for (const Activation f : {Activation::relu, Activation::silu}) {
      CAPTURE(to_string(d), name_of(f));
      const LeakGuard guard;
      const Tensor x = filled({2, 4, 16, 16}, 1, f32, d);
      const Tensor kernel = filled({8, 4, 3, 3}, 2, f32, d).set_requires_grad();
      const Tensor w = filled({8}, 3, f32, d).set_requires_grad();
      const Tensor b = filled({8}, 4, f32, d).set_requires_grad();
      const i64 one = 2 * 8 * 16 * 16 * 4, small = 8 * 64 + 1024;
      std::vector<Values> gradients[2];
      for (const bool fused : {true, false}) {
        const i64 before = memory::stats(d).live;
        const Tensor loss =
            sum(normed(Norm::training, f, fused, conv2d(x, kernel, {.padding = 1}), w, b, {}, {}));
        const i64 held = memory::stats(d).live - before, tensors = fused ? 1 : 2;
        CHECK(held >= tensors * one);
        CHECK(held <= tensors * one + small);
        for (const Tensor& g : grads({loss}, {kernel, w, b}))
          gradients[fused].push_back(to_doubles(g));
      }
      if (f == Activation::relu && d.kind != DeviceKind::cuda) CHECK(gradients[0] == gradients[1]);
    }
}

TEST_CASE("fused norms: an operator that reads the result has it made again from the input") {
  for (const Device d : kernel_devices()) {
    const LeakGuard guard;
    const Tensor x = filled({2, 8, 8, 8}, 1, f32, d).set_requires_grad();
    const Tensor kernel = filled({4, 8, 3, 3}, 2, f32, d).set_requires_grad();
    Tensor mean = zeros({8}, {.device = d}), var = ones({8}, {.device = d});
    std::vector<Values> of[2];
    for (const SavePolicy policy : {SavePolicy::keep, SavePolicy::recompute}) {
      mean.fill_(0), var.fill_(1);
      const i64 before = memory::stats(d).live, one = x.numel() * 4;
      Tensor loss;
      {
        const SaveScope scope(policy);
        loss = sum(conv2d(normed(Norm::training, Activation::gelu, true, neg(x), {}, {}, mean, var),
                          kernel));
      }
      const i64 held = memory::stats(d).live - before;
      CHECK(held / one == (policy == SavePolicy::keep ? 2 : 1));
      auto& values = of[policy == SavePolicy::keep];
      for (const Tensor& g : grads({loss}, {x, kernel})) values.push_back(to_doubles(g));
      values.push_back(to_doubles(mean));  // moved once
    }
    CHECK(of[0] == of[1]);
  }
}

TEST_CASE("fused norms: backward works in the memory of the gradient that arrives") {
  for (const Device d : kernel_devices())
    for (const Activation f : {Activation::none, Activation::relu6}) {
      CAPTURE(to_string(d), int(f));
      const LeakGuard guard;
      const Tensor x = filled({4, 8, 16, 16}, 1, f32, d).set_requires_grad();
      const Tensor c = filled({4, 8, 16, 16}, 2, f32, d);
      const i64 one = x.numel() * 4;
      const Tensor loss = sum(normed(Norm::training, f, true, neg(x), {}, {}, {}, {}) * c);
      memory::reset_peak(d);
      const i64 before = memory::stats(d).live;
      loss.backward();
      CHECK(memory::stats(d).peak - before < one + one / 4);  // not two
    }
}

TEST_CASE("norm layers with an activation: the same state, and the bits of layer and activation") {
  const LeakGuard guard;
  manual_seed(5);
  const Tensor x = randn({4, 6, 3, 3});
  nn::BatchNorm2d plain{6}, fused{6, {.activation = Activation::relu}};
  fused.load_state_dict(plain.state_dict());  // throws where a name is another
  for (int step = 0; step < 2; ++step) CHECK(to_doubles(fused(x)) == to_doubles(relu(plain(x))));
  CHECK(to_doubles(fused.running_var) == to_doubles(plain.running_var));
  plain.eval(), fused.eval();
  CHECK(to_doubles(fused(x)) == to_doubles(relu(plain(x))));
  nn::GroupNorm group{3, 6, {.activation = Activation::relu}};
  CHECK(to_doubles(group(x)) == to_doubles(relu(nn::GroupNorm{3, 6}(x))));
  nn::InstanceNorm2d instance{6, {.activation = Activation::relu}};
  CHECK(to_doubles(instance(x)) == to_doubles(relu(nn::InstanceNorm2d{6}(x))));
}
