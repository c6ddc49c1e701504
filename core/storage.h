// The bytes under tensors: a reference-counted block, never resized. Behind core/tensor.h; users
// see Tensor.
//
// cpu: header and block are one object from thread-local free lists by size class; a warm request
// is a pop. Other devices take the header from a free list and the block from their allocator.
#pragma once
#include <bit>

#include "warptape/core/device.h"
#include "warptape/core/macros.h"
#include "warptape/core/mode.h"
#include "warptape/core/refcount.h"

namespace wt {

// Counts writes to a family of views. Lives in the storage, or in an arena's own array (one a
// slot): a parameter in an arena is a root of its own.
struct VersionCell {
  u32 version = 0;
  std::atomic<FrameId> view_frame{0};  // where the newest view was made, for messages
  std::atomic<u32> views{0};           // live views of the root
  FrameId write_frame = 0;             // where the newest write was made; 0: nobody knows

  void wrote(FrameId where) {
    ++version;
    write_frame = where;
  }
};

struct StorageExtra;  // deleter of a borrowed block, events of asynchronous copies

struct alignas(64) Storage {
  RefCount refs;
  u8 size_class;
  Category category;
  u8 home;        // the thread whose free list it goes to, or kSpecial
  bool borrowed;  // from_blob; never reused as an output
  Device device;
  u32 mode_id;  // module that made it
  const OpInfo* owner;
  i64 bytes;  // as asked for
  void* data;
  union {
    Storage* next;        // in a free list
    StorageExtra* extra;  // special ones
  };
  VersionCell cell;

  // Anything but a pooled cpu block.
  static constexpr u8 kSpecial = 255;
  bool special() const { return home == kSpecial; }
};
static_assert(sizeof(Storage) == 64, "header and block share cache lines: keep the header at one");

namespace detail {
// Counters of one thread and one device kind (real or meta).
struct MemoryCounters {
  i64 by_category[kNumCategories];
  i64 live, peak;
  i64 peak_by_category[kNumCategories];
  u64 requests;
};
inline constexpr int kSizeClasses = 233;  // every number of bytes has one; fits Storage::size_class
inline constexpr int kCounterRows = 8;    // real devices, then their meta stand-ins
struct StorageLog;                        // core/checkpoint_logs.h
struct ThreadMemory {
  Storage* free_blocks[kSizeClasses];     // cpu blocks by class
  MemoryCounters counters[kCounterRows];  // by counter_row()
  i64 taken;                              // bytes from the system since the lists were trimmed
  u32 slow;                               // SlowAllocation bits: no block without a call
  StorageLog* log;                        // while a checkpointed function runs
  u64 fail_countdown;                     // 0: never
  i64 fail_above;                         // bytes; 0: never
  i64 live_storages;
  i32 headers;  // in free_blocks[0]: of blocks that are no pooled ones
  bool fail_next_tensor, ended;
  u8 home;  // this thread's number; 0: not registered
};
extern constinit thread_local ThreadMemory thread_memory;
// Why each allocation of this thread goes through allocate_slow().
enum SlowAllocation : u32 {
  kSlowFailing = 1,
  kSlowLogged = 2,
  kSlowWatched = 4,
  kSlowInSlices = 8  // blocks have several slices (core/slices.h)
};

// 64-byte steps to 1 KiB, then four steps an octave: at most 25 % lost.
constexpr u32 size_class(u64 bytes) {
  if (bytes <= 1024) return u32((bytes + 63) >> 6);
  const u32 lg = 63 - u32(std::countl_zero(bytes - 1));
  return 17 + (lg - 10) * 4 + u32(((bytes - 1) >> (lg - 2)) & 3);
}
constexpr u64 class_bytes(u32 c) {
  if (c <= 16) return c * 64ull;
  const u32 k = c - 17, lg = 10 + k / 4;
  return (1ull << lg) + ((k % 4) + 1) * (1ull << (lg - 2));
}
static_assert(size_class(~u64{0}) + 1 == kSizeClasses);
// No request is larger on any device, meta included: no processor addresses more, and sums over the
// live tensors stay within 64 bits.
inline constexpr i64 kLargestBlock = i64{1} << 48;

WT_HOT int counter_row(Device d) { return int(d.kind) | int(d.is_meta) << 2; }
static_assert(kNumDeviceKinds <= 4);

WT_HOT void count_request(Device d, Category c, i64 bytes) {
  MemoryCounters& m = thread_memory.counters[counter_row(d)];
  m.by_category[int(c)] += bytes;
  m.live += bytes;
  ++m.requests;
  if (m.live > m.peak) [[unlikely]] {
    m.peak = m.live;
    for (int i = 0; i < kNumCategories; ++i) m.peak_by_category[i] = m.by_category[i];
  }
}
WT_HOT void count_release(Device d, Category c, i64 bytes) {
  MemoryCounters& m = thread_memory.counters[counter_row(d)];
  m.by_category[int(c)] -= bytes;
  m.live -= bytes;
}

// Before a thread's first entry in its pools.
void register_thread();
// Counts the request too.
Storage* allocate_slow(Device d, i64 bytes);
void release_storage(Storage* s);
}  // namespace detail

// A block of `bytes` on `d`, contents undefined, one reference. Throws OutOfMemory naming operator,
// module and the device's memory by category; nothing is changed then.
WT_HOT Storage* allocate(Device d, i64 bytes) {
  detail::ThreadMemory& t = detail::thread_memory;
  const u32 c = detail::size_class(u64(bytes) | 1);
  Storage* s;
  if (d == Device::cpu() && t.slow == 0 && (s = t.free_blocks[c])) [[likely]] {
    t.free_blocks[c] = s->next;
    detail::count_request(Device::cpu(), mode.category, bytes);
  } else {
    s = detail::allocate_slow(d, bytes);
  }
  s->refs.init();
  s->category = mode.category;
  s->mode_id = mode.id;
  s->owner = mode.op;
  s->bytes = bytes;
  s->cell.version = 0;
  s->cell.view_frame.store(0, std::memory_order_relaxed);
  s->cell.views.store(0, std::memory_order_relaxed);
  ++t.live_storages;
  return s;
}

WT_HOT void retain(Storage* s) { s->refs.inc(); }
WT_HOT void release(Storage* s) {
  if (s->refs.dec()) detail::release_storage(s);
}

// A storage over memory that is not ours. `deleter(argument)` runs when the last tensor dies (null:
// the caller guarantees the lifetime).
Storage* adopt_memory(Device d, void* data, i64 bytes, void (*deleter)(void*), void* argument);

// The argument given to adopt_memory() together with `deleter`; null for any other storage.
void* adopted_argument(const Storage* s, void (*deleter)(void*));

// What a device other than cpu offers to `allocate`. Blocks are at least 256-byte aligned.
struct BlockAllocator {
  void* (*take)(Device d, i64 bytes);  // null: out of memory
  void (*give)(Device d, void* block, i64 bytes);
  void (*trim)();
  i64 (*reserved)(Device d);
};
void set_block_allocator(DeviceKind k, const BlockAllocator* a);
// Registers allocator and copies of a device kind; called at its first use. Throws NotAvailable
// with the reason. Defined in kernels/dispatch/all.cpp, which knows what is built.
void start_device(DeviceKind k);

}  // namespace wt
