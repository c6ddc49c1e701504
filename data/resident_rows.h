// Rows of tensors on a device, for the datasets of data/dataset.h. Internal.
#pragma once
#include <span>

#include "warptape/core/tensor.h"

namespace wt::data::detail {

// [N, ...] contiguous -> [n, ...], on its device. Throws IndexError.
Tensor gather_resident_rows(const char* dataset, const Tensor& t, std::span<const i64> indices);

}  // namespace wt::data::detail
