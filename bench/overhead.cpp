#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "warptape/autograd/ops/conv.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/pool.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/bench/overhead_rows.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/loss.h"
#include "warptape/optim/optimizer.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name)
#endif

namespace wt::bench {

using Clock = std::chrono::steady_clock;

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  const double at = q * double(v.size() - 1);
  const size_t i = size_t(at);
  return i + 1 < v.size() ? v[i] + (at - double(i)) * (v[i + 1] - v[i]) : v[i];
}

OverheadRow measure(const OverheadOptions& o, const char* name, const char* shape, double units,
                    const std::function<void()>& call) {
  OverheadRow row{.bench = name, .shape = shape};
  if (o.take_step) {
    o.take_step(call);
    return row;
  }
  for (int i = 0; i < 3; ++i) call();
  memory::reset_peak(Device::cpu());
  const auto run = [&](i64 n) {
    const auto start = Clock::now();
    for (i64 i = 0; i < n; ++i) call();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  i64 calls = std::max<i64>(1, o.fixed_calls);
  if (!o.fixed_calls)
    while (run(calls) < o.window_s / 4) calls *= 2;
  if (!o.fixed_calls) calls = std::max<i64>(1, i64(double(calls) * o.window_s / run(calls)));
  std::vector<double> us;
  us.reserve(size_t(o.windows));  // its growth would count
  // Under callgrind the windows of a row are a dump of their own
  // (tests/tools/instructions_test.sh).
  CALLGRIND_ZERO_STATS;
  const i64 before = malloc_count();
  for (int w = 0; w < (o.fixed_calls ? 1 : o.windows); ++w)
    us.push_back(run(calls) * 1e6 / double(calls) / units);
  const i64 mallocs = malloc_count() - before;
  CALLGRIND_DUMP_STATS_AT(name);
  row.mallocs = before <= 0 ? -1 : double(mallocs) / (double(calls) * double(us.size()) * units);
  row.median_us = quantile(us, 0.5);
  row.p10_us = quantile(us, 0.1);
  row.p90_us = quantile(us, 0.9);
  row.min_us = quantile(us, 0);
  row.calls = calls;
  row.peak_bytes = memory::stats(Device::cpu()).peak;
  return row;
}

static u64 hash_of(i64 i, u64 seed) {
  return (u64(i) + 1 + seed * 1000003) * 2654435761ull & 0xffffffffull;
}

Tensor hashed(const Shape& shape, u64 seed, double scale) {
  std::vector<float> v(size_t(numel_of(shape)));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = float((double(hash_of(i64(i), seed)) / 4294967296.0 * 2 - 1) * scale);
  return clone(
      tensor(std::span<const float>(v)).reshape(shape));  // no view: it moves into an arena
}

data::Batch hashed_images(i64 n) {
  std::vector<i64> labels;
  for (i64 i = 0; i < n; ++i) labels.push_back(i * 7 % 10);
  return {hashed({n, 1, 28, 28}, 101, 1), tensor(std::span<const i64>(labels))};
}

OverheadRow measure_steps(const OverheadOptions& o, const char* name, const char* shape,
                          const std::function<void()>& step, const std::function<double()>& loss) {
  if (o.take_step) return measure(o, name, shape, 1, step);
  for (int i = 0; !o.fixed_calls && i < kCheckSteps; ++i) step();
  const double check = o.fixed_calls ? -1 : loss();
  OverheadRow row = measure(o, name, shape, 1, step);
  row.check_loss = check;
  return row;
}

Tensor hashed_bytes(const Shape& shape, u64 seed) {
  std::vector<i64> v(size_t(numel_of(shape)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = i64(hash_of(i64(i), seed) >> 24);
  return tensor(std::span<const i64>(v)).reshape(shape);
}

namespace {

struct Mlp : nn::Module<Mlp> {
  nn::Linear fc1, fc2, fc3;
  Mlp(i64 in, i64 hidden, i64 out)
      : fc1(add("fc1", nn::Linear{in, hidden})),
        fc2(add("fc2", nn::Linear{hidden, hidden})),
        fc3(add("fc3", nn::Linear{hidden, out})) {}
  Tensor forward(Tensor x) {
    x = relu(fc1(std::move(x)));
    x = relu(fc2(std::move(x)));
    return fc3(std::move(x));
  }
};

OverheadRow tape_add(const OverheadOptions& o) {
  const Tensor leaf = ones({1}, {.requires_grad = true}), one = ones({1});
  return measure(o, "tape_add", "1", 100, [&] {
    Tensor x = leaf;
    for (int i = 0; i < 100; ++i) x = x + one;
    x.backward();
  });
}

OverheadRow mlp_tiny(const OverheadOptions& o) {
  manual_seed(1);
  Mlp net(2, 16, 1);
  optim::Sgd opt{net, {.lr = 0.01}};
  const Tensor x = randn({32, 2}), y = randn({32, 1});
  return measure(o, "mlp_tiny", "2-16-16-1 b32", 1, [&] {
    auto loss = mse_loss(net(x), y);
    opt.zero_grad();
    loss.backward();
    opt.step();
  });
}

OverheadRow mlp_small(const OverheadOptions& o) {
  manual_seed(1);
  Mlp net(784, 512, 10);
  optim::Sgd opt{net, {.lr = 0.01}};
  const Tensor x = randn({128, 784}), y = randint(0, 10, {128});
  return measure(o, "mlp_small", "784-512-512-10 b128", 1, [&] {
    auto loss = cross_entropy(net(x), y);
    opt.zero_grad();
    loss.backward();
    opt.step();
  });
}

struct Cnn {
  std::vector<nn::NamedTensor> parameters;
  Cnn() {
    add({32, 1, 3, 3}, 9);
    add({64, 32, 3, 3}, 288);
    add({128, 9216}, 9216);
    add({10, 128}, 128);
  }
  void add(const Shape& weight, double fan_in) {
    const u64 layer = parameters.size() / 2;
    const double scale = 1 / std::sqrt(fan_in);
    const auto put = [&](const char* name, Tensor t) {
      t.set_requires_grad();
      parameters.push_back({str(layer, ".", name), std::move(t)});
    };
    put("weight", hashed(weight, 2 * layer + 1, scale));
    put("bias", hashed({weight[0]}, 2 * layer + 2, scale));
  }
  const Tensor& at(size_t i) const { return parameters[i].tensor; }
  Tensor operator()(const Tensor& x) const {
    Tensor h = relu(conv2d(x, at(0), at(1)));
    h = relu(conv2d(std::move(h), at(2), at(3)));
    h = flatten(max_pool2d(std::move(h), 2), 1);
    h = relu(linear(std::move(h), at(4), at(5)));
    return linear(std::move(h), at(6), at(7));
  }
};

OverheadRow mnist_cnn(const OverheadOptions& o) {
  const Cnn net;
  optim::AdamW opt{net.parameters, {.lr = 1e-4, .weight_decay = 0}};
  const auto [x, y] = hashed_images(64);
  const auto step = [&] {
    auto loss = cross_entropy(net(x), y);
    opt.zero_grad();
    loss.backward();
    opt.step();
  };
  return measure_steps(o, "mnist_cnn", "1-32-64 k3 pool 9216-128-10 b64", step,
                       [&] { return cross_entropy(net(x), y).mean().item(); });
}

}  // namespace

std::vector<OverheadRow> overhead(const OverheadOptions& o) {
  set_num_threads(o.threads);
  std::vector<OverheadRow> rows;
  const auto wanted = [&](const char* row) {
    return o.only.empty() || std::find(o.only.begin(), o.only.end(), row) != o.only.end();
  };
  if (wanted("tape_add")) rows.push_back(tape_add(o));
  if (wanted("mlp_tiny")) rows.push_back(mlp_tiny(o));
  if (wanted("mlp_small")) rows.push_back(mlp_small(o));
  if (wanted("mnist_cnn")) rows.push_back(mnist_cnn(o));
  if (wanted("fashion_cnn")) rows.push_back(fashion_cnn(o));
  if (wanted("gpt_small")) rows.push_back(gpt_small(o));
  if (wanted("adam_step")) rows.push_back(adam_step(o));
  if (wanted("adam_launches"))
    for (OverheadRow& row : adam_launches(o)) rows.push_back(std::move(row));
  if (!o.take_step && wanted("watched_step"))
    for (OverheadRow& row : watched_step(o)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace wt::bench
