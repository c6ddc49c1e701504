#include "warptape/data/resident_rows.h"

#include "warptape/data/loader/resident_parts.h"
#include "warptape/kernels/sample_batch.h"

namespace wt::data {

namespace info {
constexpr OpInfo rows{.name = "TensorDataset", .derivative = Derivative::none};
}

namespace {

// One launch for all tensors.
template <size_t N>
void gather(const Tensor* const (&from)[N], Tensor (&out)[N], i64 n, const BatchOrder& order) {
  static_assert(N <= kRowTables);
  RowBatchArgs a{};
  a.order = order, a.count = n;
  for (size_t i = 0; i < N; ++i) {
    const Tensor& t = *from[i];
    Shape shape = t.shape();
    shape[0] = n;
    out[i] = empty(shape, {.dtype = t.dtype(), .device = t.device()});
    const i64 bytes = t.size(0) ? t.numel() / t.size(0) * item_size(t.dtype()) : 0;
    a.table[a.tables++] = {out[i].impl()->data, t.impl()->data, bytes, false};
    detail::uses({from[i]});
  }
  if (n > 0) run(a, detail::launch_on(info::rows, from[0]->device()));
}

}  // namespace

Tensor detail::gather_resident_rows(const char* dataset, const Tensor& t,
                                    std::span<const i64> indices) {
  const auto make = [&](i64 n, const BatchOrder& order) {
    Tensor out[1];
    gather<1>({&t}, out, n, order);
    return Batch{out[0], {}};
  };
  return by_list(dataset, indices, t.size(0), t.device(), 0, 0, make).x;
}

Batch TensorDataset::batch_at(const BatchAt& at) const {
  if (x_.device() != y_.device())
    throw PlacementError(str("[TensorDataset] x and y are on two devices\n  x ", describe(x_),
                             "\n  y ", describe(y_)));
  const BatchOrder order = detail::order_of("TensorDataset", at, size(), device());
  detail::uses({&at.cursor});
  Tensor out[2];
  gather<2>({&x_, &y_}, out, at.count, order);
  return {std::move(out[0]), std::move(out[1])};
}

}  // namespace wt::data
