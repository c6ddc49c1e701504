#include "warptape/core/parse_limits.h"

#include <unistd.h>

#include <algorithm>

#include "warptape/core/checked.h"

namespace wt {

u64 machine_memory() noexcept {
  static const u64 bytes = [] {
    const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? u64(pages) * u64(page) : u64{1} << 40;
  }();
  return bytes;
}

u64 ParseLimits::most_inflated(u64 packed) const noexcept {
  u64 usual = 0;
  if (!mul_fits(packed, u64{32}, usual)) usual = max_bytes;
  return std::min(max_bytes, std::max(max_inflated, usual));
}

}  // namespace wt
