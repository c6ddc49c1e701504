// Launches of kernels by datasets and transforms, outside of operators. Internal.
#pragma once
#include <initializer_list>

#include "warptape/core/mode.h"
#include "warptape/core/stream.h"
#include "warptape/core/tensor.h"
#include "warptape/kernels/run.h"

namespace wt::data::detail {

// What a launch reads or writes and has not made itself: the allocator hears which stream uses it,
// and a capture keeps it. Undefined ones are left out.
inline void uses(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* t : tensors)
    if (t->defined()) wt::detail::prepare_operand(t->impl());
}

inline Launch launch_on(const OpInfo& op, Device d) {
  return {&op, mode.native_stream, nullptr, d};
}

}  // namespace wt::data::detail
