// A model over a whole data set, without a trace: modes and positions are afterwards as before.
//
//   const Evaluation r = evaluate(net, test, {"loss", "accuracy", "top5"});
//   std::printf("%.2f %%\n", 100 * r["accuracy"]);
#pragma once
#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/owned.h"
#include "warptape/nn/metrics.h"
#include "warptape/nn/module.h"

namespace wt {

// What an evaluation has measured: names and values in the order of the metrics.
class WT_API Evaluation {
 public:
  // Reads all of these, which waits for their device. Throws what a value() throws.
  explicit Evaluation(const std::vector<metrics::Metric*>& metrics);
  // The value of a metric; NaN where nothing was counted. Throws UsageError, with the near name,
  // for a metric that was not asked for.
  double operator[](std::string_view name) const;
  // Names with values, in the order of the metrics.
  const std::vector<std::pair<std::string, double>>& values() const { return values_; }
  // On one line, with four digits behind the point: "loss 0.4213, accuracy 0.8712".
  std::string text() const;

 private:
  std::vector<std::pair<std::string, double>> values_;
};

namespace detail {

// Where a model's first parameter or buffer is; nothing for a model without.
WT_API std::optional<Device> device_of_model(const nn::ModuleBase& m);

// A loader begins its epoch anew, and goes on where it was when this ends.
template <class Loader>
class Rewound {
 public:
  explicit Rewound(Loader& loader) : loader_(loader), before_(loader.state()) {
    auto start = before_;
    start.batch = 0;
    loader_.set_state(start);
  }
  ~Rewound() { loader_.set_state(before_); }  // a position it was at: does not throw
  Rewound(const Rewound&) = delete;
  Rewound& operator=(const Rewound&) = delete;

 private:
  Loader& loader_;
  std::remove_cvref_t<decltype(std::declval<Loader&>().state())> before_;
};

// Those of an evaluation; no vector of them, which each program would instantiate.
struct MetricList {
  metrics::Metric* const* first;
  size_t count;
  metrics::Metric* const* begin() const { return first; }
  metrics::Metric* const* end() const { return first + count; }
};
WT_API Evaluation read(const MetricList& list);

template <class Model, class Range>
void evaluate_batches(Model& model, Range& batches, const MetricList& list, Frame at) {
  std::optional<Device> device;
  if constexpr (std::derived_from<std::remove_cv_t<Model>, nn::ModuleBase>)
    device = device_of_model(model);
  for (auto&& batch : batches) {
    auto& [x, y] = batch;
    const Tensor input = device ? x.to(*device) : x, target = device ? y.to(*device) : y;
    const Tensor output = model(input);
    for (metrics::Metric* m : list) m->update(output, target, at);
  }
}

template <class Model>
struct EvalScopeOf {
  explicit EvalScopeOf(const Model&) {}
};
template <std::derived_from<nn::ModuleBase> Model>
struct EvalScopeOf<Model> : nn::EvalScope {
  using EvalScope::EvalScope;
};

template <class Model, class Range>
Evaluation evaluate(Model& model, Range& batches, const MetricList& list, Frame at) {
  const FrameScope frame(at);
  const NoGrad no_grad;
  const EvalScopeOf<std::remove_cv_t<Model>> eval(model);
  for (metrics::Metric* m : list) m->reset();
  if constexpr (requires { batches.set_state(batches.state()); }) {
    const Rewound rewound(batches);
    evaluate_batches(model, batches, list, at);
  } else {
    evaluate_batches(model, batches, list, at);
  }
  return read(list);
}

// make_metric() for each name.
class WT_API NamedMetrics {
 public:
  explicit NamedMetrics(std::initializer_list<std::string_view> names);
  ~NamedMetrics();
  NamedMetrics(const NamedMetrics&) = delete;
  NamedMetrics& operator=(const NamedMetrics&) = delete;
  MetricList list() const;

 private:
  struct Metrics;
  Owned<Metrics> metrics_;
};

}  // namespace detail

// What the metrics say of a model in eval mode and without gradients, given every batch (x, y) of
// the loader or range on the model's device; the metrics are reset first, and read at the end:
// until then the host does not wait. A loader is read from the beginning of its epoch. Training
// flags of every module, grad mode and the loader's position are put back, also when something
// throws.
template <class Model, class Range, std::derived_from<metrics::Metric>... M>
requires(sizeof...(M) > 0) Evaluation evaluate(Model&& model, Range&& batches, M&... metrics) {
  metrics::Metric* const list[] = {&metrics...};
  return detail::evaluate(model, batches, {list, sizeof...(M)}, Frame{});
}
// The same evaluation with metrics by name. Throws UsageError for a name that make_metric() does
// not know.
template <class Model, class Range>
Evaluation evaluate(Model&& model, Range&& batches, std::initializer_list<std::string_view> names,
                    Frame at = Frame::here()) {
  const detail::NamedMetrics metrics(names);
  return detail::evaluate(model, batches, metrics.list(), at);
}

}  // namespace wt
