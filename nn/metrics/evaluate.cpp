#include "warptape/nn/evaluate.h"

#include <cstdio>

#include "warptape/core/suggest.h"

namespace wt {

Evaluation::Evaluation(const std::vector<metrics::Metric*>& metrics) {
  for (const metrics::Metric* m : metrics) values_.emplace_back(m->name(), m->value());
}

double Evaluation::operator[](std::string_view name) const {
  std::vector<std::string_view> names;
  for (const auto& [n, value] : values_) {
    if (n == name) return value;
    names.push_back(n);
  }
  throw UsageError(str("the evaluation has no '", printable(name), "'", did_you_mean(name, names)));
}

std::string Evaluation::text() const {
  std::string out;
  for (const auto& [name, value] : values_) {
    char number[32];
    std::snprintf(number, sizeof number, "%.4f", value);
    out += (out.empty() ? "" : ", ") + name + " " + number;
  }
  return out;
}

std::optional<Device> detail::device_of_model(const nn::ModuleBase& m) {
  for (const nn::NamedTensor& t : m.state_dict()) return t.tensor.device();
  return std::nullopt;
}

struct detail::NamedMetrics::Metrics {
  std::vector<std::unique_ptr<metrics::Metric>> owned{};
  std::vector<metrics::Metric*> list{};
};
detail::NamedMetrics::NamedMetrics(std::initializer_list<std::string_view> names)
    : metrics_(new Metrics) {
  for (const std::string_view name : names) {
    metrics_->owned.push_back(metrics::make_metric(name));
    metrics_->list.push_back(metrics_->owned.back().get());
  }
}
detail::NamedMetrics::~NamedMetrics() = default;
detail::MetricList detail::NamedMetrics::list() const {
  return {metrics_->list.data(), metrics_->list.size()};
}

Evaluation detail::read(const MetricList& list) {
  return Evaluation(std::vector<metrics::Metric*>(list.begin(), list.end()));
}

}  // namespace wt
