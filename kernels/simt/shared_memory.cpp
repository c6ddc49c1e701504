// Shared memory of a block: arrays between red zones, filled with NaN.
#include <cstring>

#include "warptape/kernels/simt/scheduler.h"

namespace wt {
namespace simt_runtime {
namespace {

constexpr size_t kSharedRedZone = 64, kStaticLimit = 48 * 1024, kSharedLimit = 227 * 1024;

// Lays an array between two red zones. What lies before it is the red zone of its predecessor.
char* carve(Exec& x, size_t bytes, size_t align, const SharedSite* site) {
  if (align < 16) align = 16;
  const size_t offset = (x.shared_used + kSharedRedZone + align - 1) / align * align;
  const size_t end = (offset + bytes + 15) / 16 * 16;
  if (end + kSharedRedZone > kSharedArena)
    WT_FAIL(x, "%zu bytes of shared memory do not fit", bytes);
  unpoison(x.shared + offset, bytes);
  x.shared_used = end;
  x.arrays.push_back({site, x.shared + offset, bytes});
  return x.shared + offset;
}

// Red zones hold 0xff too, so that a read beyond an array gives NaN; a write is found at the end
// of the block. Returns the first byte of [from, to) that was written.
char* first_written(char* from, char* to) {
  for (; to - from >= 8; from += 8) {
    uint64_t word;
    std::memcpy(&word, from, 8);
    if (word != ~uint64_t(0)) break;
  }
  for (; from < to; ++from)
    if (static_cast<unsigned char>(*from) != 0xff) return from;
  return nullptr;
}

WT_COLD
std::string overrun_text(const SharedArray& a, const char* p) {
  const std::string name =
      a.site ? strf("%s (%s)", a.site->name, at({a.site->file, a.site->line}).c_str())
             : "(dynamic)";
  const std::string where = p >= a.data ? strf("at byte %ld of %zu", long(p - a.data), a.bytes)
                                        : strf("%ld byte(s) before its begin", long(a.data - p));
  return strf("block %s wrote outside of shared array %s: %s",
              dim_text({::blockIdx.x, ::blockIdx.y, ::blockIdx.z}).c_str(), name.c_str(),
              where.c_str());
}

}  // namespace

void begin_shared(Exec& x, size_t dynamic_bytes) {
  x.dynamic = dynamic_bytes ? carve(x, dynamic_bytes, 16, nullptr) : nullptr;
}

// After a block: red zones must be untouched. Then everything used is 0xff again, because arrays
// may lie elsewhere in the next block.
void finish_shared(Exec& x) {
  const size_t used = x.shared_used + kSharedRedZone;
  unpoison(x.shared, used);
  char* from = x.shared;
  for (size_t i = 0; i <= x.arrays.size() && !x.failed; ++i) {
    const bool last = i == x.arrays.size();
    char* to = last ? x.shared + used : x.arrays[i].data;
    if (char* p = first_written(from, to)) [[unlikely]] {
      // The red zone belongs to both neighbours: the nearer one is meant.
      const bool behind = last || (i > 0 && p - from < to - p);
      x.failed = true;
      x.error = x.arrays.empty() ? "wrote shared memory without an array"
                                 : overrun_text(x.arrays[behind ? i - 1 : i], p);
    }
    if (!last) from = x.arrays[i].data + x.arrays[i].bytes;
  }
  std::memset(x.shared, 0xff, used);
  poison(x.shared, used);
  x.arrays.clear();
  x.shared_used = x.static_bytes = 0;
}

}  // namespace simt_runtime

inline namespace simt {

using namespace simt_runtime;

WT_API void* exec_shared(const SharedSite& site, size_t bytes, size_t align) {
  Exec& x = exec();
  for (const SharedArray& a : x.arrays)
    if (a.site == &site) return a.data;
  x.static_bytes += bytes;
  if (x.static_bytes > kStaticLimit)
    WT_FAIL(x, "shared array %s (%s): more than 48 KiB of static shared memory in a block",
            site.name, at({site.file, site.line}).c_str());
  if (x.static_bytes + x.grid->shared_bytes > kSharedLimit)
    WT_FAIL(x, "shared array %s (%s): static and dynamic shared memory exceed 227 KiB", site.name,
            at({site.file, site.line}).c_str());
  return carve(x, bytes, align, &site);
}

WT_API void* exec_dyn_shared() { return exec().dynamic; }

}  // namespace simt
}  // namespace wt
