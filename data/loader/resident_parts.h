// What the datasets of data/resident.h have in common. Internal.
#pragma once
#include "warptape/core/factories.h"
#include "warptape/data/launch_parts.h"
#include "warptape/data/resident.h"
#include "warptape/kernels/sample_batch.h"

namespace wt::data::detail {

// A batch of listed samples: make(n, order), the list being on the device meanwhile. Throws
// IndexError before anything is sent.
template <class F>
Batch by_list(const char* dataset, std::span<const i64> indices, i64 rows, Device d, u64 seed,
              i64 epoch, const F& make) {
  for (const i64 i : indices) check_sample(dataset, i, rows);
  const Tensor list = tensor(indices, {.dtype = DType::i64, .device = d});
  BatchOrder order{.rows = rows, .seed = seed, .epoch = epoch};
  order.list = list.impl()->storage ? static_cast<const i64*>(list.impl()->data) : nullptr;
  return make(i64(indices.size()), order);
}

// Throws IndexError for places outside of the epoch, UsageError for another cursor than is said.
BatchOrder order_of(const char* dataset, const BatchAt& at, i64 rows, Device d);

// The tensor on the device, contiguous. Throws OutOfMemory where it does not fit there.
Tensor resident(const char* dataset, const Tensor& t, Device d);

}  // namespace wt::data::detail
