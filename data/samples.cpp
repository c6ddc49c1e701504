#include "warptape/data/samples.h"

#include <cstring>

#include "warptape/core/factories.h"

namespace wt::data::detail {

void no_samples_to_stack() { throw UsageError("[Loader] a batch of no samples was asked for"); }

Tensor stack_samples(const char* part, std::span<const Tensor* const> samples) {
  const Tensor& first = *samples[0];
  Shape shape = first.shape();
  const auto unlike = [&](const char* what, size_t k) {
    return str("[Loader] ", part, " of one batch have different ", what,
               "\n  sample 0 of the batch ", describe(first), "\n  sample ", k, " ",
               describe(*samples[k]),
               "\n  Try a collate(std::vector<Sample>) const of the dataset, which may pad");
  };
  for (size_t k = 0; k < samples.size(); ++k) {
    const Tensor& t = *samples[k];
    if (t.shape() != shape) throw ShapeError(unlike("shapes", k));
    if (t.dtype() != first.dtype()) throw DtypeError(unlike("dtypes", k));
    if (t.device() != Device::cpu())
      throw PlacementError(str("[Loader] samples are stacked on the cpu\n  sample ", k,
                               " of the batch ", describe(t),
                               "\n  Try samples on the cpu and the loader's .device"));
  }
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

Tensor numbers_tensor(const std::vector<i64>& v) { return tensor(v); }
Tensor numbers_tensor(const std::vector<float>& v) { return tensor(v); }
Tensor numbers_tensor(const std::vector<bool>& v) {
  Tensor t = empty({i64(v.size())}, {.dtype = DType::boolean, .device = Device::cpu()});
  for (size_t i = 0; i < v.size(); ++i) static_cast<bool*>(t.impl()->data)[i] = v[i];
  return t;
}

}  // namespace wt::data::detail
