#include "warptape/tools/wt/measure/throughput.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/out_of_memory.h"
#include "warptape/core/memory_limit.h"
#include "warptape/core/random.h"
#include "warptape/core/stopwatch.h"
#include "warptape/kernels/cuda/api.h"
#include "warptape/tools/wt/measure/memory_use.h"
#include "warptape/tools/wt/measure/race.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/recipe_training.h"

namespace wt::tools {
namespace {

constexpr double kRising = 1.05;  // the last point over the one before
constexpr int kWithoutGain = 3;   // doublings
constexpr double kGain = 1.02;    // of the best rate so far
constexpr i64 kLargest = i64{1} << 20;

i64 classes_of(const MemoryJob& job) {
  const DefaultDevice nothing(Device::meta());
  const NoGrad no_grad;
  const std::unique_ptr<Recipe> r = job.make();
  const Tensor y = r->logits(r->shape_batch(1).x);
  return y.shape()[y.ndim() - 1];
}

// Random, because equal values are a case of its own for caches and for sums of gradients by index.
data::Batch random_batch(const Recipe& recipe, i64 batch, i64 classes, Device d) {
  const data::Batch shapes = recipe.shape_batch(batch);
  const auto like = [&](const Tensor& t) {
    const TensorOptions options{.dtype = t.dtype(), .device = Device::cpu()};
    return (is_floating(t.dtype()) ? randn(t.shape(), options)
                                   : randint(0, classes, t.shape(), options))
        .to(d);
  };
  return {like(shapes.x), like(shapes.y)};
}

// Bytes that tensors may take.
i64 room_on(Device d, i64 memory_limit) {
  if (memory_limit > 0) return memory_limit;
  // Half of what the host has: a system that swaps is no measurement.
  return d.kind == DeviceKind::cuda ? cuda::properties(d.index).free_bytes
                                    : detail::available_memory() / 2;
}

ThroughputPoint measured(const ThroughputOptions& o, const MemoryJob& job, i64 classes) {
  const Device device = device_for(o.train.device);
  const DefaultDevice there(device);
  manual_seed(o.train.seed);
  const std::unique_ptr<Recipe> recipe = job.make();
  const RecipeDefaults d = resolve(job.options, *recipe);
  RecipeTraining training(job.options, d, *recipe, 1);
  const data::Batch b = random_batch(*recipe, d.batch, classes, device);
  memory::reset_peak(device);
  const bench::TimeSpread time =
      bench::time([&] { (void)training.step(b); }, {.device = device,
                                                    .warmups = 3,
                                                    .seconds = o.seconds,
                                                    .min_samples = 5,
                                                    .sample_seconds = o.seconds / 20});
  return {d.batch, time.p10, time.spread(), memory::stats(device).peak};
}

bool gained_nothing(const std::vector<double>& rates) {
  if (int(rates.size()) <= kWithoutGain) return false;
  const auto recent = rates.end() - kWithoutGain;
  const double before = *std::max_element(rates.begin(), recent);
  return *std::max_element(recent, rates.end()) < kGain * before;
}

}  // namespace

std::optional<Knee> find_knee(std::span<const double> rates, double share) {
  if (!(share > 0 && share <= 1))
    throw UsageError(str("[find_knee] share must be above 0 and at most 1, got ", share));
  const auto rate = [&](size_t i) {
    return std::isfinite(rates[i]) && rates[i] > 0 ? rates[i] : 0;
  };
  Knee k;
  for (size_t i = 0; i < rates.size(); ++i)
    if (rate(i) > rate(k.best)) k.best = i;
  if (rates.empty() || rate(k.best) == 0) return {};
  k.at = k.best;
  while (k.at > 0 && rate(k.at - 1) >= share * rate(k.best)) --k.at;
  const size_t last = rates.size() - 1;
  k.still_rising = last > 0 && k.best == last && rate(last) > kRising * rate(last - 1);
  return k;
}

std::optional<Knee> Throughput::knee() const {
  std::vector<double> rates;
  for (const ThroughputPoint& p : points) rates.push_back(p.rate());
  return find_knee(rates, share);
}

BatchSweep sweep_batches(
    i64 max_batch,
    const std::function<std::optional<ThroughputPoint>(i64 batch, std::string& ended)>& measure) {
  BatchSweep s;
  std::vector<double> rates;
  const i64 most = max_batch > 0 ? max_batch : kLargest;
  for (i64 batch = 1;; batch = std::min(2 * batch, most)) {
    const std::optional<ThroughputPoint> p = measure(batch, s.ended);
    if (!p) return s;
    s.points.push_back(*p);
    rates.push_back(p->rate());
    if (batch == most) {
      s.ended = max_batch > 0 ? "the largest that was asked for" : "the largest that is tried";
      return s;
    }
    if (max_batch == 0 && gained_nothing(rates)) {
      s.ended =
          str(kWithoutGain, " doublings gained less than ", three_digits(100 * (kGain - 1)), " %");
      return s;
    }
  }
}

Throughput measure_throughput(const ThroughputOptions& o,
                              const std::function<void(const ThroughputPoint&)>& on_point) {
  if (is_race(o.train.recipe))
    throw UsageError(str(o.train.recipe, " is many trainings; their recipe has one throughput"));
  if (o.train.threads > 0) set_num_threads(o.train.threads);
  MemoryJob job = memory_jobs(o.train, false).front();
  const Device device = device_for(o.train.device);
  const i64 room = room_on(device, o.train.memory_limit), classes = classes_of(job);
  std::optional<memory::LimitScope> limit;
  if (o.train.memory_limit) limit.emplace(device, o.train.memory_limit);
  Throughput t{.recipe = o.train.recipe,
               .device = to_string(device),
               .precision = o.train.precision,
               .share = o.share};
  {
    const DefaultDevice nothing(Device::meta());
    const std::unique_ptr<Recipe> r = job.make();
    t.settings = r->settings(), t.item = r->item(), t.items_per_sample = r->items_per_sample();
  }
  BatchSweep s = sweep_batches(o.max_batch, [&](i64 batch, std::string& ended) {
    job.options.batch = batch;
    std::optional<ThroughputPoint> p;
    if (const i64 peak = predicted_peak(job); peak > room) {
      ended = str("a batch of ", batch, " is predicted to take ", memory::bytes_text(peak),
                  ", and there are ", memory::bytes_text(room));
      return p;
    }
    try {
      p = measured(o, job, classes);
    } catch (const OutOfMemory&) {
      ended = str("a batch of ", batch, " did not fit");
      return p;
    }
    if (on_point) on_point(*p);
    return p;
  });
  if (s.points.empty()) throw OutOfMemory("[throughput] not even one sample fits: " + s.ended);
  t.points = std::move(s.points), t.ended = std::move(s.ended);
  return t;
}

}  // namespace wt::tools
