#include "warptape/core/memory/guard_alloc.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"

namespace wt::detail {
namespace {

u64 page() {
  static const u64 bytes = u64(sysconf(_SC_PAGESIZE));
  return bytes;
}
u64 pages_for(i64 bytes) { return (u64(bytes) + page() - 1) / page() * page(); }

// Elements are aligned to their size, since it divides the block's, and the block's last byte is
// the page's: one element too far is on the next page.
void* take(Device, i64 bytes) {
  if (bytes == 0) bytes = 1;
  const u64 size = pages_for(bytes);
  void* all = mmap(nullptr, size + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(all) + page();
  if (mprotect(first, size, PROT_READ | PROT_WRITE) != 0) {
    munmap(all, size + 2 * page());
    return nullptr;
  }
  std::memset(first, 0xff, size);
  return first + size - u64(bytes);
}

void give(Device, void* block, i64 bytes) {
  if (bytes == 0) bytes = 1;
  const u64 size = pages_for(bytes);
  munmap(static_cast<char*>(block) + bytes - size - page(), size + 2 * page());
}

void trim() {}
i64 reserved(Device) { return 0; }

}  // namespace

bool guard_wanted() {
  const char* const wanted = std::getenv("WT_ALLOC");
  if (!wanted || !*wanted) return false;
  if (!std::strcmp(wanted, "guard")) return true;
  // The other two are for cuda (kernels/cuda/device.cpp).
  if (!std::strcmp(wanted, "caching") || !std::strcmp(wanted, "direct")) return false;
  throw UsageError(str("WT_ALLOC=", printable(wanted), ": caching, direct or guard"));
}

const BlockAllocator& guard_allocator() {
  static constexpr BlockAllocator allocator{take, give, trim, reserved};
  return allocator;
}

}  // namespace wt::detail
