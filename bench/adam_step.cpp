// adam_step: what follows a backward (norm of the gradients, clipping, AdamW, zero_grad) beside
// memcpy on as many threads in the same windows.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "warptape/autograd/node.h"
#include "warptape/bench/overhead_rows.h"
#include "warptape/core/device.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/storage.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/optimizer.h"

namespace wt::bench {
namespace {

constexpr i64 kTensors = 64, kSide = 512;  // 16.8 M parameters
constexpr i64 kElements = kTensors * kSide * kSide;
// Parameter, both moments: read and written; the gradient: read by the norm and by the step.
constexpr double kStepBytes = double(kElements) * 4 * (3 * 2 + 2);

// A copy between two buffers, whose bytes are read and written.
struct PlainCopy {
  size_t threads;
  std::vector<char> from, to;
  explicit PlainCopy(int t)
      : threads(size_t(t)), from(size_t(kElements) * 8, 1), to(from.size(), 2) {}
  void operator()() {
    const auto part = [&](size_t k) {
      const size_t begin = from.size() * k / threads, end = from.size() * (k + 1) / threads;
      std::memcpy(to.data() + begin, from.data() + begin, end - begin);
    };
    std::vector<std::jthread> others;
    for (size_t k = 1; k < threads; ++k) others.emplace_back(part, k);
    part(0);
  }
  double bytes() const { return 2 * double(from.size()); }
};

}  // namespace

OverheadRow adam_step(const OverheadOptions& o) {
  std::vector<nn::NamedTensor> parameters;
  for (i64 i = 0; i < kTensors; ++i) {
    Tensor t = hashed({kSide, kSide}, u64(i) + 1, 0.05);
    t.set_requires_grad();
    parameters.push_back({str("p", i), std::move(t)});
  }
  optim::AdamW opt{parameters, {.lr = 1e-4, .weight_decay = 0.1}};
  std::vector<Leaf*> leaves;
  for (i64 i = 0; i < kTensors; ++i) {
    leaves.push_back(leaf_of(parameters[size_t(i)].tensor.impl()));
    const Tensor g = hashed({kSide, kSide}, u64(i) + 1001, 0.01);
    std::memcpy(leaves.back()->grad->data, g.impl()->data, size_t(g.numel()) * 4);
  }
  const auto step = [&] {
    for (Leaf* l : leaves) {  // as a backward leaves them
      l->written = true;
      ++l->backwards;
      l->grad->cell->wrote(mode.frame);
    }
    opt.step({.grad_factor = optim::clip_factor(opt, 1.0)});
    opt.zero_grad();
  };
  for (int i = 0; !o.fixed_calls && i < kCheckSteps; ++i) step();
  double check = 0;
  for (const nn::NamedTensor& p : parameters) {
    const float* v = p.tensor.data<float>();
    for (i64 i = 0; i < kSide * kSide; ++i) check += std::abs(double(v[i]));
  }
  PlainCopy copy(o.threads);
  copy();
  OverheadOptions one = o;  // a window of each in turn, so that both see the same machine
  one.windows = 1;
  OverheadRow row = measure(one, "adam_step", "64 x 512x512", 1, step);
  const auto timed = [](const auto& f, i64 calls) {
    const auto start = std::chrono::steady_clock::now();
    for (i64 i = 0; i < calls; ++i) f();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
               .count() /
           double(calls);
  };
  std::vector<double> us, copy_us;
  for (int w = 0; !o.fixed_calls && w < o.windows; ++w) {
    us.push_back(timed(step, row.calls));
    copy_us.push_back(timed([&] { copy(); }, row.calls));
  }
  if (!us.empty()) {
    row.median_us = quantile(us, 0.5);
    row.p10_us = quantile(us, 0.1);
    row.p90_us = quantile(us, 0.9);
    row.min_us = quantile(us, 0);
    row.bytes = kStepBytes;
    row.roof_gb_s = copy.bytes() / quantile(copy_us, 0.5) * 1e-3;
    row.roof_best_gb_s = copy.bytes() / quantile(copy_us, 0) * 1e-3;
    row.check_loss = check / double(kElements);
  }
  return row;
}

}  // namespace wt::bench
