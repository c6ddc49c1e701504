#include "warptape/data/samples.h"

#include <cstring>
#include <variant>

#include "warptape/core/factories.h"

namespace wt::data::detail {
namespace {

using Tensors = std::vector<const Tensor*>;

void check_alike(const Tensors& samples, const std::string& part) {
  const Tensor& first = *samples[0];
  const auto unlike = [&](const char* what, size_t k) {
    return str("[Loader] samples of one batch have different ", what, part,
               "\n  sample 0 of the batch ", describe(first), "\n  sample ", k, " ",
               describe(*samples[k]),
               "\n  Try a collate(std::vector<Sample>) const of the dataset, which may pad");
  };
  for (size_t k = 0; k < samples.size(); ++k) {
    const Tensor& t = *samples[k];
    if (t.defined() != first.defined())
      throw UsageError(unlike("tensors, and some that are undefined", k));
    if (!t.defined()) continue;
    if (t.shape() != first.shape()) throw ShapeError(unlike("shapes", k));
    if (t.dtype() != first.dtype()) throw DtypeError(unlike("dtypes", k));
    if (t.device() != Device::cpu())
      throw PlacementError(str("[Loader] samples are stacked on the cpu\n  sample ", k,
                               " of the batch ", describe(t),
                               "\n  Try samples on the cpu and the loader's .device"));
  }
}

Tensor made(const Tensors& samples, const std::string& part) {
  check_alike(samples, part);
  const Tensor& first = *samples[0];
  if (!first.defined()) return {};
  Shape shape = first.shape();
  shape.insert(0, i64(samples.size()));
  Tensor out = empty(shape, {.dtype = first.dtype(), .device = Device::cpu()});
  const size_t row = size_t(first.numel() * item_size(first.dtype()));
  char* to = static_cast<char*>(out.impl()->data);
  for (size_t k = 0; k < samples.size(); ++k) {
    const Tensor dense = samples[k]->contiguous();
    if (row > 0) std::memcpy(to + k * row, dense.impl()->data, row);
  }
  return out;
}
template <class T>
Tensor made(const std::vector<T>& numbers, const std::string&) {
  Tensor t = empty({i64(numbers.size())},
                   {.dtype = wt::detail::dtype_of_type<T>(), .device = Device::cpu()});
  std::copy(numbers.begin(), numbers.end(), static_cast<T*>(t.impl()->data));
  return t;
}

using Part = std::variant<Tensors, std::vector<bool>, std::vector<i64>, std::vector<float>>;

}  // namespace

struct SampleStack::Impl {
  size_t samples;
  std::vector<Part> parts{};
  size_t sample = 0, part = 0, taken = 0;

  [[noreturn]] void unlike_first() const {
    throw UsageError(str("[Loader] sample ", sample, " of the batch has other parts than sample 0 ",
                         "(which has ", parts.size(),
                         ")\n  Try a collate(std::vector<Sample>) const of the dataset"));
  }
  template <class V, class T>
  void add(const T& value) {
    if (sample == 0) parts.emplace_back(V()), std::get<V>(parts.back()).reserve(samples);
    if (part == parts.size() || !std::holds_alternative<V>(parts[part])) unlike_first();
    std::get<V>(parts[part++]).push_back(value);
  }
};

SampleStack::SampleStack(size_t samples) : impl_(new Impl{samples}) {}
SampleStack::~SampleStack() = default;

void SampleStack::add(const Tensor& t) { impl_->add<Tensors>(&t); }
void SampleStack::add(bool v) { impl_->add<std::vector<bool>>(v); }
void SampleStack::add(i64 v) { impl_->add<std::vector<i64>>(v); }
void SampleStack::add(float v) { impl_->add<std::vector<float>>(v); }

void SampleStack::next_sample() {
  if (impl_->part != impl_->parts.size()) impl_->unlike_first();
  impl_->part = 0;
  ++impl_->sample;
}

Tensor SampleStack::take() {
  const size_t k = impl_->taken++, n = impl_->parts.size();
  const std::string which = n > 1 ? str(" in part ", k, " of ", n) : "";
  return std::visit([&](const auto& values) { return made(values, which); }, impl_->parts.at(k));
}

void no_samples_to_stack() { throw UsageError("[Loader] a batch of no samples was asked for"); }

}  // namespace wt::data::detail
