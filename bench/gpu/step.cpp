#include "warptape/bench/gpu/step.h"

#include <chrono>
#include <cmath>

#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/copy_bytes.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/loss.h"
#include "warptape/optim/optimizer.h"

namespace wt::bench {
namespace {

using Clock = std::chrono::steady_clock;

// The numbers that every program of bench/peers starts from: a hash of the index.
std::vector<float> hashed(i64 n, i64 seed, double scale) {
  std::vector<float> v(static_cast<size_t>(n));
  for (i64 i = 0; i < n; ++i) {
    const u64 hash = u64(i + 1 + seed * 1000003) * 2654435761u & 0xffffffffu;
    v[size_t(i)] = float((double(hash) / 4294967296.0 * 2 - 1) * scale);
  }
  return v;
}

struct Mlp : nn::Module<Mlp> {
  nn::Linear fc1 = add("fc1", nn::Linear{784, 512});
  nn::Linear fc2 = add("fc2", nn::Linear{512, 512});
  nn::Linear fc3 = add("fc3", nn::Linear{512, 10});
  Tensor forward(Tensor x) {
    x = relu(fc1(std::move(x)));
    x = relu(fc2(std::move(x)));
    return fc3(std::move(x));
  }
};

void set_numbers(nn::Linear& layer, i64 in, i64 out, i64 index) {
  const NoGrad no_grad;
  const double scale = 1 / std::sqrt(double(in));
  Tensor w = layer.weight, b = layer.bias;
  w.copy_(tensor(hashed(in * out, 2 * index + 1, scale)).reshape({in, out}).transpose(0, 1));
  b.copy_(tensor(hashed(out, 2 * index + 2, scale)));
}

}  // namespace

Row mlp_small_step(Device d, double window_s, int windows) {
  Mlp net;
  set_numbers(net.fc1, 784, 512, 0);
  set_numbers(net.fc2, 512, 512, 1);
  set_numbers(net.fc3, 512, 10, 2);
  net.to(d);
  optim::Sgd opt{net, {.lr = 0.01}};
  std::vector<i64> labels(128);
  for (i64 i = 0; i < 128; ++i) labels[size_t(i)] = i * 7 % 10;
  const Tensor x = tensor(hashed(128 * 784, 101, 1)).reshape({128, 784}).to(d);
  const Tensor y = tensor(labels).to(d);
  memory::reset_peak(d);
  const auto step = [&] {
    auto loss = cross_entropy(net(x), y);
    opt.zero_grad();
    loss.backward();
    opt.step();
  };
  for (int i = 0; i < 20; ++i) step();
  const double check = cross_entropy(net(x), y).item();
  const auto run = [&](i64 calls) {
    const auto start = Clock::now();
    for (i64 i = 0; i < calls; ++i) step();
    synchronize(d);
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  i64 calls = 1;
  while (run(calls) < window_s / 8) calls *= 2;
  calls = std::max<i64>(1, i64(double(calls) * window_s / run(calls)));
  std::vector<double> us;
  for (int w = 0; w < windows; ++w) us.push_back(run(calls) * 1e6 / double(calls));
  Row r{.bench = "mlp_small", .impl = "warptape eager", .shape = "784-512-512-10 b128"};
  r.dtype = "f32";
  r.time = summarize(std::move(us));
  const double weights = 784.0 * 512 + 512.0 * 512 + 512.0 * 10;
  r.flops = 2 * 128 * (3 * weights - 784.0 * 512);
  r.peak_bytes = memory::stats(d).peak;
  r.more = {{"check_loss", check}, {"windows", double(windows)}, {"calls", double(calls)}};
  return r;
}

std::vector<Row> dispatch_rows(Device d) {
  std::vector<Row> rows;
  const Tensor one = ones({1}, {.device = d});
  const Tensor leaf = ones({1}, {.device = d, .requires_grad = true});
  Row r{.bench = "dispatch_add", .impl = "warptape", .shape = "1", .dtype = "f32"};
  const int calls = d.kind == DeviceKind::simt ? 200 : 20'000;
  r.time = time_issue(d, calls, [&](int) { const Tensor y = one + one; });
  rows.push_back(r);
  r.impl = "warptape, recorded";
  r.time = time_issue(d, calls, [&](int) { const Tensor y = leaf + one; });
  rows.push_back(r);
  return rows;
}

}  // namespace wt::bench
