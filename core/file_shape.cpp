#include "warptape/core/file_shape.h"

namespace wt::detail {

bool dense_bytes(DType dtype, std::span<const i64> shape, u64& bytes) {
  bytes = static_cast<u64>(item_size(dtype));
  bool fits = true, empty = false;
  for (const i64 size : shape) {
    empty |= size == 0;
    fits &= !__builtin_mul_overflow(bytes, static_cast<u64>(size), &bytes);
  }
  if (empty) bytes = 0;
  return fits || empty;
}

std::string shape_text(std::span<const i64> shape) {
  std::string out = "[";
  for (const i64 size : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  return out + "]";
}

}  // namespace wt::detail
