#include "warptape/core/memory/returned_memory.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "warptape/core/thread_object.h"

namespace wt::detail {
namespace {

constexpr i64 kFewBytes = i64{64} << 20;
constexpr i64 kManyTensors = 1 << 16, kTensorsAtOnce = 64;

// A free block's `bytes`: nobody used it since its list was looked through.
constexpr i64 kUnused = -1;

struct Returned {
  std::mutex mutex;
  Storage* blocks[kSizeClasses]{};
  i64 kept = 0, came_in = 0;  // bytes: when the lists were looked through, and since then
  TensorImpl* tensors = nullptr;
  i64 tensor_count = 0;
  u32 threads[kLastHome + 1]{};  // that go by each number
  // Of each one's blocks by others, not taken off yet; [0]: of threads that have ended.
  i64 freed[kLastHome + 1][kNumCategories]{};
};
constinit std::atomic<bool> has_freed[kLastHome + 1];  // by home: any of `freed`

Returned& returned() {
  static Returned* r = new Returned;  // outlives static destructors
  return *r;
}

i64 size_of(const Storage* s) { return i64(class_bytes(s->size_class)); }

i64 list_bytes(const Storage* list) {
  i64 n = 0;
  for (; list; list = list->next) n += size_of(list);
  return n;
}

}  // namespace

u8 take_home() {
  Returned& r = returned();
  const std::lock_guard lock(r.mutex);
  u8 home = 1;
  while (home < kLastHome && r.threads[home] > 0) ++home;
  ++r.threads[home];
  return home;
}
void leave_home(u8 home) {
  Returned& r = returned();
  const std::lock_guard lock(r.mutex);
  --r.threads[home];
}

void keep_for_ever(void* p) {
  static std::mutex mutex;
  static auto* kept = new std::vector<void*>;
  const std::lock_guard lock(mutex);
  kept->push_back(p);
}

std::atomic<i64>& reserved_bytes() {
  static constinit std::atomic<i64> bytes{0};
  return bytes;
}

// The caller holds the mutex.
static void count_freed(Returned& r, const Storage* s) {
  const u8 home = r.threads[s->home] > 0 ? s->home : u8(0);
  r.freed[home][int(s->category)] += s->bytes;
  has_freed[home].store(true, std::memory_order_relaxed);
}

static void take_off(MemoryCounters& m, const i64 (&freed)[kNumCategories]) {
  for (int c = 0; c < kNumCategories; ++c) {
    m.by_category[c] -= freed[c];
    m.live -= freed[c];
  }
}

void take_off_freed() {
  const u8 home = thread_memory.home;
  if (home == 0 || !has_freed[home].load(std::memory_order_relaxed)) return;
  Returned& r = returned();
  const std::lock_guard lock(r.mutex);
  has_freed[home].store(false, std::memory_order_relaxed);
  take_off(thread_memory.counters[counter_row(Device::cpu())], r.freed[home]);
  std::fill_n(r.freed[home], kNumCategories, i64{0});
}

void take_off_all_freed(MemoryCounters& cpu) {
  Returned& r = returned();
  const std::lock_guard lock(r.mutex);
  for (const auto& freed : r.freed) take_off(cpu, freed);
  for (const i64 bytes : r.freed[0]) cpu.peak -= bytes;  // they count as held when the thread ended
}

void trim_blocks(Storage*& list) {
  while (Storage* s = list) {
    list = s->next;
    reserved_bytes() -= size_of(s);
    std::free(s);
  }
}

void trim_unused_blocks(Storage*& list) {
  for (Storage** at = &list; Storage* s = *at;) {
    if (s->bytes != kUnused) {
      s->bytes = kUnused;
      at = &s->next;
      continue;
    }
    *at = s->next;
    reserved_bytes() -= size_of(s);
    std::free(s);
  }
}

// What waits is looked through each time that as much has come in as there was the last time: what
// a loop hands from thread to thread is used again until then, and a flood that is over goes.
void return_block(Storage* s) {
  Returned& r = returned();
  const std::lock_guard lock(r.mutex);
  count_freed(r, s);
  if constexpr (!kPools) {
    s->next = nullptr;  // a list of one
    return trim_blocks(s);
  }
  s->next = r.blocks[s->size_class];
  r.blocks[s->size_class] = s;
  r.came_in += size_of(s);
  if (r.came_in < std::max(kFewBytes, r.kept)) return;
  r.came_in = r.kept = 0;
  for (Storage*& list : r.blocks) {
    trim_unused_blocks(list);
    r.kept += list_bytes(list);
  }
}

Storage* returned_block(u32 size_class) {
  Returned& r = returned();
  const std::lock_guard lock(r.mutex);
  Storage* s = r.blocks[size_class];
  if (!s) return nullptr;
  r.blocks[size_class] = s->next;
  return s;
}

void trim_impls(TensorImpl*& list) {
  while (TensorImpl* p = list) {
    list = p->next;
    std::free(p);
  }
}

void return_impl(TensorImpl* p) {
  Returned& r = returned();
  const std::lock_guard lock(r.mutex);
  if (r.tensor_count == kManyTensors) return std::free(p);
  p->next = r.tensors;
  r.tensors = p;
  ++r.tensor_count;
}

TensorImpl* returned_impls() {
  Returned& r = returned();
  const std::lock_guard lock(r.mutex);
  return take_some(r.tensors, r.tensor_count, kTensorsAtOnce);
}

void trim_returned() {
  Returned& r = returned();
  const std::lock_guard lock(r.mutex);
  for (Storage*& list : r.blocks) trim_blocks(list);
  trim_impls(r.tensors);
  r.kept = r.came_in = r.tensor_count = 0;
}

}  // namespace wt::detail
