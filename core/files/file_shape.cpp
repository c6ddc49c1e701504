#include "warptape/core/files/file_shape.h"

#include <algorithm>

#include "warptape/core/checked.h"

namespace wt::detail {

bool dense_bytes(DType dtype, std::span<const i64> shape, u64& bytes) {
  bytes = static_cast<u64>(item_size(dtype));
  bool fits = true, empty = false;
  for (const i64 size : shape) {
    empty |= size == 0;
    fits &= mul_fits(bytes, static_cast<u64>(size), bytes);
  }
  if (empty) bytes = 0;
  return fits || empty;
}

bool strides_fit(DType dtype, std::span<const i64> shape) {
  i64 bytes = static_cast<i64>(item_size(dtype));
  for (const i64 size : shape) {
    if (!mul_fits(bytes, std::max(i64{1}, size), bytes)) return false;
  }
  return true;
}

std::string shape_text(std::span<const i64> shape) {
  std::string out = "[";
  for (const i64 size : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  return out + "]";
}

}  // namespace wt::detail
