// Device memory of the simt device: one big reservation, best-fit blocks, red zones, protection.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "warptape/kernels/simt/queues.h"

namespace wt {
namespace simt_runtime {
namespace {

constexpr size_t kGranule = 256;            // alignment and unit of a block
constexpr size_t kRedZone = 64;             // at least this much between two blocks
constexpr size_t kCommitStep = 4u << 20;    // the arena grows by this
constexpr size_t kReturnBytes = 64u << 20;  // larger free blocks give their pages back

constexpr size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

struct Block {
  size_t extent = 0;  // bytes up to the next block
  size_t bytes = 0;   // what was asked for
  bool live = false;
  bool ending = false;         // freed by the host, still there for queued work
  uint64_t number = 0;         // of its allocation
  void* stream = nullptr;      // whose it is
  std::vector<void*> users{};  // other streams
};

class Arena {
 public:
  Arena() {
    void* p =
        mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void* bits = mmap(nullptr, kArenaBytes / kGranule / 8, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || bits == MAP_FAILED)
      throw OutOfMemory(
          "simt: cannot reserve 64 GiB of address space for device memory; a limit "
          "on virtual memory (ulimit -v) must allow it");
    base = static_cast<char*>(p);
    live_ = static_cast<uint64_t*>(bits);
  }

  void* alloc(size_t bytes, void* stream) {
    const size_t need = round_up(bytes + kRedZone, kGranule);
    if (bytes > kArenaBytes) return nullptr;
    const std::lock_guard lock(mutex);
    size_t offset;
    if (auto fit = free_.lower_bound({need, 0}); fit != free_.end()) {
      offset = fit->second;
      take_free(offset, need);
    } else {
      if (!grow(need)) return nullptr;
      offset = top_;
      top_ += need;
      blocks_[offset].extent = need;
    }
    Block& b = blocks_[offset];
    b.bytes = bytes;
    b.live = true;
    b.number = ++allocations_;
    b.stream = stream;
    mark(offset, bytes, true);
    info.live_bytes += bytes;
    ++info.live_blocks;
    unpoison(base + offset, bytes);
    return base + offset;
  }

  // `p` may point anywhere into the block: views begin where they like.
  void use(const void* p, void* stream) {
    const char* at = static_cast<const char*>(p);
    if (at < base || at >= base + kArenaBytes) return;
    const std::lock_guard lock(mutex);
    auto it = blocks_.upper_bound(size_t(at - base));
    if (it == blocks_.begin()) return;
    --it;
    Block& b = it->second;
    if (!b.live || at >= base + it->first + b.bytes || b.stream == stream) return;
    std::vector<void*>& u = b.users;
    if (std::find(u.begin(), u.end(), stream) == u.end()) u.push_back(stream);
  }

  void begin_free(void* p, std::vector<void*>& streams) {
    const std::lock_guard lock(mutex);
    Block& b = live_block(p)->second;
    b.ending = true;
    streams.swap(b.users);
    streams.push_back(b.stream);
    info.live_bytes -= b.bytes;
    --info.live_blocks;
    waiting_bytes += b.bytes;
  }

  void end_free(void* p) {
    const std::lock_guard lock(mutex);
    auto it = blocks_.find(size_t(static_cast<char*>(p) - base));
    waiting_bytes -= it->second.bytes;
    it->second.ending = false;
    remove(it);
  }

  void release(void* p) {
    const std::lock_guard lock(mutex);
    auto it = live_block(p);
    info.live_bytes -= it->second.bytes;
    --info.live_blocks;
    remove(it);
  }

  bool allocation(const char* p, Allocation& a) {
    const char *begin, *end;
    if (p < base || p >= base + kArenaBytes) return a = {p, 0}, find(p, 0, &begin, &end);
    const std::lock_guard lock(mutex);
    auto it = blocks_.upper_bound(size_t(p - base));
    if (it == blocks_.begin()) return false;
    --it;
    const Block& b = it->second;
    a = {base + it->first, b.number};
    return b.live && !b.ending && p <= a.begin + b.bytes;
  }
  bool holds(const Allocation& a) {
    const std::lock_guard lock(mutex);
    const auto it = blocks_.find(size_t(a.begin - base));
    return it != blocks_.end() && it->second.live && it->second.number == a.number;
  }

 private:
  using Blocks = std::map<size_t, Block>;
  Blocks::iterator live_block(void* p) {
    auto it = blocks_.find(size_t(static_cast<char*>(p) - base));
    if (it == blocks_.end() || !it->second.live || it->second.ending)
      throw InternalError("simt: free of a pointer that is not a live block");
    return it;
  }

  void remove(Blocks::iterator it) {
    mark(it->first, it->second.bytes, false);
    it->second.live = false;
    it->second.users.clear();
    poison(base + it->first, it->second.extent);
    if (auto next = std::next(it); next != blocks_.end() && !next->second.live) {
      free_.erase({next->second.extent, next->first});
      it->second.extent += next->second.extent;
      blocks_.erase(next);
    }
    if (it != blocks_.begin()) {
      if (auto before = std::prev(it); !before->second.live) {
        free_.erase({before->second.extent, before->first});
        before->second.extent += it->second.extent;
        blocks_.erase(it);
        it = before;
      }
    }
    free_.insert({it->second.extent, it->first});
    if (it->second.extent >= kReturnBytes) give_pages_back(it->first, it->second.extent);
  }

 public:
  bool live_granule(const char* p) const {
    const size_t g = size_t(p - base) / kGranule;
    return __atomic_load_n(&live_[g / 64], __ATOMIC_RELAXED) >> (g % 64) & 1;
  }

  bool find(const char* p, size_t bytes, const char** begin, const char** end) {
    const std::lock_guard lock(mutex);
    if (p >= base && p < base + kArenaBytes) {
      auto it = blocks_.upper_bound(size_t(p - base));
      if (it == blocks_.begin()) return false;
      --it;
      *begin = base + it->first;
      *end = *begin + it->second.bytes;
      return it->second.live && p + bytes <= *end;
    }
    auto it = registered.upper_bound(p);
    if (it == registered.begin()) return false;
    --it;
    *begin = it->first;
    *end = it->second;
    return p + bytes <= *end;
  }

  // Makes the committed part follow `protect` and `open`; the mutex is held.
  void apply() {
    const bool accessible = !protect || open > 0;
    if (accessible == accessible_) return;
    accessible_ = accessible;
    if (info.committed)
      mprotect(base, info.committed, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
    if (!accessible) ensure_fault_handler();
  }

  char* base = nullptr;
  std::mutex mutex;
  std::map<const char*, const char*> registered;  // begin -> end
  SimtArenaInfo info{kArenaBytes, 0, 0, 0};
  std::atomic<bool> protect = false;
  int open = 0;              // ArenaOpen scopes begun while protection was on
  size_t waiting_bytes = 0;  // of blocks that queued work may still use

 private:
  bool grow(size_t need) {
    if (top_ + need <= info.committed) return true;
    const size_t want = round_up(top_ + need, kCommitStep);
    if (want > kArenaBytes) return false;
    if (accessible_ &&
        mprotect(base + info.committed, want - info.committed, PROT_READ | PROT_WRITE) != 0)
      return false;
    poison(base + info.committed, want - info.committed);
    info.committed = want;
    return true;
  }
  // Turns the free block at `offset` into a block of `need` bytes and a smaller free one.
  void take_free(size_t offset, size_t need) {
    Block& b = blocks_[offset];
    free_.erase({b.extent, offset});
    if (b.extent > need) {
      blocks_[offset + need].extent = b.extent - need;
      free_.insert({b.extent - need, offset + need});
      b.extent = need;
    }
  }
  void mark(size_t offset, size_t bytes, bool live) {
    const size_t first = offset / kGranule, last = (offset + bytes) / kGranule;
    for (size_t g = first; g <= last; ++g) {
      const uint64_t bit = uint64_t(1) << (g % 64);
      uint64_t& word = live_[g / 64];
      __atomic_store_n(&word, live ? word | bit : word & ~bit, __ATOMIC_RELAXED);
    }
  }
  void give_pages_back(size_t offset, size_t extent) {
    const size_t first = round_up(offset, 4096), last = (offset + extent) / 4096 * 4096;
    madvise(base + first, last - first, MADV_DONTNEED);
  }

  uint64_t* live_ = nullptr;  // one bit a granule
  size_t top_ = 0;
  bool accessible_ = true;
  uint64_t allocations_ = 0;
  Blocks blocks_;                             // by offset, without gaps up to top_
  std::set<std::pair<size_t, size_t>> free_;  // (extent, offset)
};

// Never destroyed: device memory may be freed by static destructors of others.
Arena& arena() {
  static Arena& a = *new Arena;
  return a;
}

}  // namespace

char* arena_base() { return arena().base; }

bool device_pointer(const void* p) {
  Arena& a = arena();
  const char* c = static_cast<const char*>(p);
  if (c >= a.base && c < a.base + kArenaBytes) return a.live_granule(c);
  const char *begin, *end;
  return a.find(c, 0, &begin, &end);
}

bool device_block(const void* p, size_t bytes, const char** begin, const char** end) {
  return arena().find(static_cast<const char*>(p), bytes, begin, end);
}

void* arena_alloc(size_t bytes, void* stream) {
  void* p = arena().alloc(bytes, stream);
  if (p && bytes && simt_options().fill_new_memory) {
    const ArenaOpen open;
    std::memset(p, 0xff, bytes);
  }
  return p;
}

void arena_use(const void* block, void* stream) { arena().use(block, stream); }
void arena_begin_free(void* block, std::vector<void*>& streams) {
  arena().begin_free(block, streams);
}
// What reads it later reads NaN, as it would what another tensor has written there.
void arena_end_free(void* block) {
  const char *begin, *end;
  if (simt_options().fill_new_memory && device_block(block, 0, &begin, &end)) {
    const ArenaOpen open;
    std::memset(block, 0xff, size_t(end - begin));
  }
  arena().end_free(block);
}
size_t arena_waiting_bytes() {
  const std::lock_guard lock(arena().mutex);
  return arena().waiting_bytes;
}

bool find_allocation(const void* p, Allocation& found) {
  return arena().allocation(static_cast<const char*>(p), found);
}
bool still_there(const Allocation& a) { return a.number == 0 || arena().holds(a); }

bool open_arena() {
  auto& a = arena();
  if (!a.protect.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(a.mutex);
  ++a.open;
  a.apply();
  return true;
}

void close_arena() {
  auto& a = arena();
  const std::lock_guard lock(a.mutex);
  --a.open;
  a.apply();
}

}  // namespace simt_runtime

using simt_runtime::arena;

void* simt_arena_alloc(size_t bytes) { return simt_runtime::arena_alloc(bytes, nullptr); }

void simt_arena_free(void* block) {
  if (!block) return;
  if (simt_runtime::lazy()) simt_runtime::wait_quietly();
  arena().release(block);
}

SimtArenaInfo simt_arena_info() {
  auto& a = arena();
  const std::lock_guard lock(a.mutex);
  return a.info;
}

void simt_register(void* begin, size_t bytes) {
  auto& a = arena();
  const std::lock_guard lock(a.mutex);
  const char* p = static_cast<const char*>(begin);
  a.registered[p] = p + bytes;
}

void simt_unregister(void* begin) {
  if (simt_runtime::lazy()) simt_runtime::wait_for_all();
  auto& a = arena();
  const std::lock_guard lock(a.mutex);
  if (a.registered.erase(static_cast<const char*>(begin)) == 0)
    throw InternalError("simt: unregister of a pointer that was not registered");
}

bool simt_is_device(const void* p, size_t bytes) {
  const char *begin, *end;
  return simt_runtime::device_block(p, bytes, &begin, &end);
}

bool simt_protect(bool on) {
  auto& a = arena();
  const std::lock_guard lock(a.mutex);
  const bool before = a.protect;
  a.protect = on;
  a.apply();
  return before;
}

SimtUnprotect::SimtUnprotect() {
  if (simt_runtime::lazy()) simt_runtime::wait_for_all();
  counted_ = simt_runtime::open_arena();
}

SimtUnprotect::~SimtUnprotect() {
  if (counted_) simt_runtime::close_arena();
}

}  // namespace wt
