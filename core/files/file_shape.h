// Shapes as files declare them: untrusted numbers, before they become a tensor's geometry.
// Internal.
#pragma once
#include <span>
#include <string>

#include "warptape/core/dtype.h"
#include "warptape/core/macros.h"

namespace wt::detail {

// Bytes of a dense array of `shape`, whose sizes are not negative. False if that does not fit into
// 64 bits; an array with a zero size has no bytes whatever its other sizes are.
[[nodiscard]] WT_API bool dense_bytes(DType dtype, std::span<const i64> shape, u64& bytes);

// Whether a tensor can have this shape: its strides, too, must fit into 64 bits, whatever axis has
// no elements.
[[nodiscard]] WT_API bool strides_fit(DType dtype, std::span<const i64> shape);

// "[2, 3]".
WT_API std::string shape_text(std::span<const i64> shape);

}  // namespace wt::detail
