#include "warptape/optim/doctor/batches.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/async_copy.h"

namespace wt::doctor {
namespace {

constexpr i64 kIgnored = -100;         // CrossEntropyOptions::ignore_index
constexpr size_t kMostClasses = 4096;  // that are told apart

bool has_values(const Tensor& t) { return t.defined() && !t.device().is_meta && t.numel() > 0; }

}  // namespace

void BatchWatch::add(const std::vector<Tensor>& batch) {
  if (batch.empty() || !has_values(batch.front())) return;
  ++seen_.count;
  seen_.samples = batch.front().ndim() ? batch.front().size(0) : 1;
  seen_.pageable_bytes = 0;
  for (const Tensor& t : batch)
    if (has_values(t) && t.device().kind == DeviceKind::cpu && !is_pinned(t))
      seen_.pageable_bytes += t.numel() * item_size(t.dtype());
  const NoGrad no_grad;
  look_at_input(batch.front());
  if (batch.size() > 1 && has_values(batch.back())) look_at_labels(batch.back());
}

void BatchWatch::look_at_input(const Tensor& x) {
  std::vector<double> values = x.detach().to_vector<double>();
  seen_.repeated += values == before_;
  if (is_floating(x.dtype())) {
    seen_.floating = true;
    for (const double v : values) {
      ++seen_.elements;
      if (!std::isfinite(v))
        ++seen_.not_finite;
      else
        sum_ += v, squares_ += v * v;
    }
    const size_t row = values.size() / size_t(std::max<i64>(1, seen_.samples));
    if (seen_.samples < 2)
      all_alike_ = false;
    else
      for (size_t i = row; all_alike_ && i < values.size(); ++i)
        all_alike_ = values[i] == values[i % row];
  }
  before_ = std::move(values);
}

void BatchWatch::look_at_labels(const Tensor& y) {
  if (y.dtype() != DType::i64 && y.dtype() != DType::i32) return;
  seen_.labels = true;
  std::set<i64> here;
  for (const double value : y.detach().to_vector<double>()) {
    const i64 v = i64(value);
    if (v == kIgnored) {
      ++seen_.ignored;
      continue;
    }
    seen_.least = seen_.label_count ? std::min(seen_.least, v) : v;
    seen_.most = seen_.label_count ? std::max(seen_.most, v) : v;
    ++seen_.label_count;
    if (here.size() < kMostClasses) here.insert(v);
    if (classes_.size() < kMostClasses) classes_.insert(v);
  }
  if (here.size() != 1 || y.numel() < 2) return;
  ++seen_.of_one_class;
  filling_.insert(*here.begin());
}

BatchesSeen BatchWatch::seen() const {
  BatchesSeen s = seen_;
  s.distinct = i64(classes_.size());
  s.filling = i64(filling_.size());
  const double n = double(std::max<i64>(1, s.elements - s.not_finite));
  s.mean = sum_ / n;
  s.deviation = std::sqrt(std::max(0.0, squares_ / n - s.mean * s.mean));
  s.rows_alike = s.floating && all_alike_;
  return s;
}

}  // namespace wt::doctor
