// How factories make a tensor. Internal.
#pragma once
#include <functional>

#include "warptape/core/factories.h"

namespace wt::detail {

inline DType dtype_or_default(const TensorOptions& o) {
  return o.dtype.value_or(mode.default_dtype);
}

inline TensorOptions options_of(const Tensor& like, Frame at) {
  return {.dtype = like.dtype(at), .device = like.device(at)};
}

// `write(memory, elements)` fills it on the cpu, then it is moved: the same bits on every device.
// On meta nothing is written.
Tensor made_on_cpu(const Shape& shape, DType t, const TensorOptions& o, Frame at,
                   const std::function<void(void*, i64)>& write);

}  // namespace wt::detail
