#include "warptape/core/storage.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "warptape/core/at_line.h"
#include "warptape/core/checkpoint_logs.h"
#include "warptape/core/error.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/guard_alloc.h"
#include "warptape/core/memory/out_of_memory.h"
#include "warptape/core/memory/returned_memory.h"
#include "warptape/core/memory_limit.h"
#include "warptape/core/profiler.h"
#include "warptape/core/slices.h"
#include "warptape/core/storage_companion.h"
#include "warptape/core/tensor_impl.h"

namespace wt {

struct StorageExtra {
  void (*deleter)(void*) = nullptr;  // of a borrowed block
  void* argument = nullptr;
  void (*companion_deleter)(void*) = nullptr;
  void* companion = nullptr;
};

namespace detail {

constinit thread_local ThreadMemory thread_memory = {};
constinit thread_local ThreadImpls thread_impls = {};

// Beside SlowAllocation: cpu blocks of this thread come from guard_alloc.cpp.
static constexpr u32 kSlowGuarded = 1u << 31, kSlowLimited = 1u << 30;

namespace {

std::atomic<const BlockAllocator*> block_allocators[kNumDeviceKinds] = {};

// Threads whose counters are summed; a thread that ends leaves its counts in `ended`.
struct Registry {
  std::mutex mutex;
  std::vector<ThreadMemory*> threads;
  std::vector<ThreadImpls*> impls;
  ThreadMemory ended{};
  memory::LiveObjects ended_objects;
};
Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

}  // namespace

namespace {

void trim_thread(ThreadMemory& t) {
  for (Storage*& list : t.free_blocks) trim_blocks(list);
  t.headers = t.taken = 0;
}

// Sizes that grow leave blocks behind that nothing will ask for again. Looked for each time that as
// much was taken as the thread has ever held at once: a loop whose steps are alike takes nothing
// any more by then.
constexpr i64 kFewTakenBytes = i64{64} << 20;
void took_from_system(ThreadMemory& t, i64 bytes) {
  t.taken += bytes;
  if (t.taken < std::max(kFewTakenBytes, t.counters[counter_row(Device::cpu())].peak)) return;
  t.taken = 0;
  for (u32 c = 1; c < kSizeClasses; ++c) trim_unused_blocks(t.free_blocks[c]);
}

// Reads what other threads count without asking them to stop: each number is one aligned word, so
// it is an old or a new one, never half of each. Atomics would cost the allocator an instruction a
// count.
__attribute__((no_sanitize("thread"))) void add_counters(ThreadMemory& sum, const ThreadMemory& t) {
  for (int r = 0; r < kCounterRows; ++r) {
    MemoryCounters& a = sum.counters[r];
    const MemoryCounters& b = t.counters[r];
    a.live += b.live;
    a.peak += b.peak;
    a.requests += b.requests;
    for (int c = 0; c < kNumCategories; ++c) {
      a.by_category[c] += b.by_category[c];
      a.peak_by_category[c] += b.peak_by_category[c];
    }
  }
  sum.live_storages += t.live_storages;
}

// Runs at the end of each thread that ever allocated.
struct ThreadEnd {
  ThreadMemory* memory = &thread_memory;
  ThreadImpls* impls = &thread_impls;
  ThreadEnd() {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    r.threads.push_back(memory);
    r.impls.push_back(impls);
  }
  ~ThreadEnd() {
    trim_thread(*memory);
    trim_impls(impls->free);
    end_nodes();
    take_off_freed();
    leave_home(memory->home);
    // What is freed after this, by destructors of other thread_local objects, is another's.
    memory->home = impls->home = 0;
    memory->ended = true;
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    add_counters(r.ended, *memory);
    for (MemoryCounters& c : r.ended.counters) c.peak = c.live;
    r.ended_objects.tensors += impls->live;
    r.ended_objects.nodes += impls->live_nodes;
    std::erase(r.threads, memory);
    std::erase(r.impls, impls);
  }
};

}  // namespace

void register_thread() {
  if (thread_memory.home != 0 || thread_memory.ended) return;
  thread_memory.home = thread_impls.home = take_home();
  if (guard_wanted()) memory::guard_blocks(true);
  static thread_local ThreadEnd end;
  (void)&end;
}

namespace {

// Above this a request is compared with what there is, which costs a file's reading.
constexpr i64 kLargeRequest = i64{1} << 30;

constinit thread_local i64 limits[kCounterRows] = {};  // of live bytes; 0: none

void check_request(Device d, i64 bytes) {
  if (bytes < 0) throw InternalError("a negative allocation");
  if (bytes > kLargestBlock && !d.is_meta) out_of_memory(d, bytes, ", more than any memory has");
  if (const i64 most = thread_memory.fail_above; most && bytes > most)
    out_of_memory(d, bytes, str(", and tests allow ", memory::bytes_text(most)), 0);
  if (const i64 limit = limits[counter_row(d)]) {
    const i64 room = limit - thread_memory.counters[counter_row(d)].live;
    if (bytes > room)
      out_of_memory(d, bytes, str(", and the limit is ", memory::bytes_text(limit)),
                    std::max<i64>(0, room));
  }
  if (bytes < kLargeRequest || d != Device::cpu()) return;
  if (bytes <= available_memory()) return;
  trim_thread(thread_memory);
  trim_returned();
  if (const i64 there = available_memory(); bytes > there)
    out_of_memory(d, bytes, str(", where ", memory::bytes_text(there), " are available"), there);
}

Storage* header() {
  Storage*& head = thread_memory.free_blocks[0];
  if (Storage* s = head) {
    head = s->next;
    --thread_memory.headers;
    return s;
  }
  auto* s = static_cast<Storage*>(std::aligned_alloc(64, sizeof(Storage)));
  if (!s) throw OutOfMemory("the host has no memory for a tensor's header");
  new (s) Storage;
  return s;
}
// They have no home: more than some are not kept, for where another thread makes them.
constexpr i32 kHeaders = 4096;
void free_header(Storage* s) {
  if (thread_memory.home == 0 || thread_memory.headers == kHeaders) return std::free(s);
  ++thread_memory.headers;
  s->next = thread_memory.free_blocks[0];
  thread_memory.free_blocks[0] = s;
}

Storage* take_cpu_block(i64 bytes) {
  const u32 c = size_class(u64(bytes) | 1);
  auto* s = static_cast<Storage*>(std::aligned_alloc(64, sizeof(Storage) + class_bytes(c)));
  if (!s) return nullptr;
  new (s) Storage;
  reserved_bytes() += i64(class_bytes(c));
  s->size_class = u8(c);
  s->home = home_of_new();
  s->borrowed = false;
  s->device = Device::cpu();
  s->data = s + 1;
  return s;
}

Storage* take_block(Device d, i64 bytes) {
  ThreadMemory& t = thread_memory;
  const bool guarded = (t.slow & kSlowGuarded) != 0 && d == Device::cpu();
  if (d == Device::cpu() && !guarded) {
    const u32 c = size_class(u64(bytes) | 1);
    if (t.free_blocks[c]) {  // what is watched or counted comes here
      Storage* s = t.free_blocks[c];
      t.free_blocks[c] = s->next;
      return s;
    }
    if (Storage* s = returned_block(c)) {
      s->home = home_of_new();
      return s;
    }
    took_from_system(t, i64(class_bytes(c)));
    Storage* s = take_cpu_block(bytes);
    if (!s) {
      trim_thread(t);
      trim_returned();
      s = take_cpu_block(bytes);
    }
    if (!s) out_of_memory(d, bytes, "");
    return s;
  }
  Storage* s = header();
  s->home = Storage::kSpecial;
  s->borrowed = false;
  s->device = d;
  s->size_class = 0;
  s->extra = nullptr;
  s->data = nullptr;
  if (guarded) {
    s->data = guard_allocator().take(d, bytes);
    if (s->data) return s;
    free_header(s);
    out_of_memory(d, bytes, " between guard pages", 0);
  }
  if (d.is_meta || bytes == 0) return s;
  try {  // a device may also throw: no driver, an error that stuck
    if (!mode.capture || !take_from_graph(d, bytes, s->data)) [[likely]]
      s->data = take_device_block(d, bytes);
  } catch (...) {
    free_header(s);
    throw;
  }
  if (!s->data) {
    free_header(s);
    out_of_memory(d, bytes, "");
  }
  return s;
}

}  // namespace

void* take_device_block(Device d, i64 bytes) {
  if (!block_allocators[int(d.kind)]) {
    require_available(d);
    start_device(d.kind);
  }
  const BlockAllocator* a = block_allocators[int(d.kind)];
  void* data = a->take(d, bytes);
  if (data) return data;
  a->trim();
  return a->take(d, bytes);
}
void give_device_block(Device d, void* data, i64 bytes) noexcept {
  if (const BlockAllocator* a = block_allocators[int(d.kind)]) a->give(d, data, bytes);
}

bool StorageLog::has(const Storage* s) const {
  return std::find(made.begin(), made.end(), s) != made.end();
}

Storage* allocate_slow(Device d, i64 bytes) {
  if (thread_memory.slow & kSlowInSlices) return allocate_sliced(d, bytes);
  register_thread();
  take_off_freed();
  ThreadMemory& t = thread_memory;
  check_request(d, bytes);
  if (t.fail_countdown && --t.fail_countdown == 0) {
    t.slow &= ~u32(kSlowFailing);
    out_of_memory(d, bytes, " and the test made it fail", 0);
  }
  for (StorageLog* l = t.log; l; l = l->outer)  // so that nothing throws once there is a block
    if (l->made.size() == l->made.capacity()) l->made.reserve(2 * l->made.size() + 64);
  Storage* s = take_block(d, bytes);
  count_request(d, mode.category, bytes);
  for (StorageLog* l = t.log; l; l = l->outer) l->made.push_back(s);
  if (t.slow & kSlowWatched) profiler::allocated(s, d, bytes);
  return s;
}

// What is not of this thread's own pool.
static void release_elsewhere(Storage* s) {
  register_thread();  // it may have freed only so far, and counts from now on
  if (!s->special() && s->home != thread_memory.home) return return_block(s);
  count_release(s->device, s->category, s->bytes);
  if (!s->special()) {  // its own, in a build without pools
    s->next = nullptr;  // a list of one
    return trim_blocks(s);
  }
  if (s->extra) {
    if (s->extra->deleter) s->extra->deleter(s->extra->argument);
    if (s->extra->companion) s->extra->companion_deleter(s->extra->companion);
    delete s->extra;
  }
  if (s->data && !s->borrowed) {
    if (s->device == Device::cpu())
      guard_allocator().give(s->device, s->data, s->bytes);
    else if (!give_to_graph(s->device, s->data, s->bytes))
      give_device_block(s->device, s->data, s->bytes);
  }
  free_header(s);
}

void release_storage(Storage* s) {
  --thread_memory.live_storages;
  if (process_slow.load(std::memory_order_relaxed) & kSlowObserved) [[unlikely]]
    profiler::freed(s);
  if (kPools && s->home == thread_memory.home) [[likely]] {
    count_release(Device::cpu(), s->category, s->bytes);
    s->next = thread_memory.free_blocks[s->size_class];
    thread_memory.free_blocks[s->size_class] = s;
    return;
  }
  release_elsewhere(s);
}

TensorImpl* impl_slow(Storage* held) {
  register_thread();
  ThreadImpls& t = thread_impls;
  if (TensorImpl* const first = kPools ? returned_impls() : nullptr) {
    t.free = first->next;
    return first;
  }
  auto* p = static_cast<TensorImpl*>(std::aligned_alloc(64, (sizeof(TensorImpl) + 63) / 64 * 64));
  if (!p || thread_memory.fail_next_tensor) {
    thread_memory.fail_next_tensor = false;
    std::free(p);
    if (held) release(held);
    throw OutOfMemory("the host has no memory for a tensor");
  }
  new (p) TensorImpl;
  p->home = home_of_new();
  return p;
}

void bytes_overflow(i64 numel, DType t) {
  throw ShapeError(str("[", mode.op ? mode.op->name : "allocation", "] ", numel, " elements of ",
                       dtype_name(t), ": the size in bytes overflows 64 bits", at_line()));
}
void elements_overflow(const i64* shape, int ndim) {
  throw ShapeError(str("[", mode.op ? mode.op->name : "allocation", "] the result would be ",
                       Shape(shape, ndim), ", whose elements overflow 64 bits", at_line()));
}
void check_extent(const i64* shape, int ndim) {
  i64 extent;
  if (!extent_fits(shape, ndim, extent)) elements_overflow(shape, ndim);
}

void destroy(TensorImpl* p) {
  if (p->flags & kIsView) p->cell->views.fetch_sub(1, std::memory_order_relaxed);
  if (p->node && release_tensor_node(p)) return;  // its producer keeps it
  release(p->storage);
  ThreadImpls& t = thread_impls;
  --t.live;
  if constexpr (!kPools) {
    register_thread();  // else the count of a thread that only releases would end with it
    return std::free(p);
  }
  if (p->home != t.home) [[unlikely]] {
    register_thread();
    return return_impl(p);
  }
  p->next = t.free;
  t.free = p;
}

}  // namespace detail

Storage* adopt_memory(Device d, void* data, i64 bytes, void (*deleter)(void*), void* argument) {
  detail::register_thread();
  Storage* s = detail::header();
  s->refs.init();
  s->size_class = 0;
  s->category = mode.category;
  s->home = Storage::kSpecial;
  s->device = d;
  s->borrowed = true;
  s->mode_id = mode.id;
  s->owner = mode.op;
  s->bytes = bytes;
  s->data = data;
  s->extra = new StorageExtra{deleter, argument};
  s->cell.version = 0;
  s->cell.view_frame.store(0, std::memory_order_relaxed);
  s->cell.views.store(0, std::memory_order_relaxed);
  for (detail::StorageLog* l = detail::thread_memory.log; l; l = l->outer) l->made.push_back(s);
  ++detail::thread_memory.live_storages;
  detail::count_request(d, s->category, bytes);
  if (process_slow.load(std::memory_order_relaxed) & kSlowObserved) [[unlikely]]
    profiler::allocated(s, d, bytes);
  return s;
}

void* adopted_argument(const Storage* s, void (*deleter)(void*)) {
  if (!s->special() || !s->borrowed || !s->extra || s->extra->deleter != deleter) return nullptr;
  return s->extra->argument;
}

void set_companion(Storage* s, void* companion, void (*deleter)(void*)) {
  WT_INTERNAL_ASSERT(s->special());
  if (!s->extra) s->extra = new StorageExtra;
  s->extra->companion_deleter = deleter;
  s->extra->companion = companion;
}

void* companion_of(const Storage* s, void (*deleter)(void*)) {
  if (!s->special() || !s->extra || s->extra->companion_deleter != deleter) return nullptr;
  return s->extra->companion;
}

void set_block_allocator(DeviceKind k, const BlockAllocator* a) {
  detail::block_allocators[int(k)] = a;
}

namespace memory {

void guard_blocks(bool on) {
  detail::register_thread();
  u32& slow = detail::thread_memory.slow;
  slow = on ? slow | detail::kSlowGuarded : slow & ~detail::kSlowGuarded;
}

Stats stats(Device d) {
  detail::Registry& r = detail::registry();
  const std::lock_guard lock(r.mutex);
  detail::ThreadMemory sum = r.ended;
  for (const detail::ThreadMemory* t : r.threads) detail::add_counters(sum, *t);
  detail::take_off_all_freed(sum.counters[detail::counter_row(Device::cpu())]);
  const detail::MemoryCounters& c = sum.counters[detail::counter_row(d)];
  Stats s;
  s.live = c.live;
  s.peak = c.peak;
  s.requests = c.requests;
  for (int i = 0; i < kNumCategories; ++i) {
    s.by_category[i] = c.by_category[i];
    s.peak_by_category[i] = c.peak_by_category[i];
  }
  const BlockAllocator* a = detail::block_allocators[int(d.kind)];
  s.reserved = d.is_meta                   ? 0
               : d.kind == DeviceKind::cpu ? detail::reserved_bytes().load()
               : a                         ? a->reserved(d)
                                           : 0;
  return s;
}

void reset_peak(Device d) {
  detail::take_off_freed();
  detail::MemoryCounters& c = detail::thread_memory.counters[detail::counter_row(d)];
  c.peak = c.live;
  for (int i = 0; i < kNumCategories; ++i) c.peak_by_category[i] = c.by_category[i];
}

void fail_nth_request(u64 n) {
  detail::ThreadMemory& t = detail::thread_memory;
  t.fail_countdown = n;
  t.slow = n ? t.slow | detail::kSlowFailing : t.slow & ~u32(detail::kSlowFailing);
}

static void follow_limits(detail::ThreadMemory& t) {
  const bool any = t.fail_above || std::any_of(std::begin(detail::limits), std::end(detail::limits),
                                               [](i64 limit) { return limit != 0; });
  t.slow = any ? t.slow | detail::kSlowLimited : t.slow & ~u32(detail::kSlowLimited);
}

void fail_requests_above(i64 bytes) {
  detail::ThreadMemory& t = detail::thread_memory;
  t.fail_above = bytes;
  follow_limits(t);
}

void set_limit(Device d, i64 bytes) {
  detail::limits[detail::counter_row(d)] = bytes;
  follow_limits(detail::thread_memory);
}
i64 limit(Device d) { return detail::limits[detail::counter_row(d)]; }

void fail_next_tensor() { detail::thread_memory.fail_next_tensor = true; }

u64 request_count() {
  u64 n = 0;
  for (const detail::MemoryCounters& c : detail::thread_memory.counters) n += c.requests;
  return n;
}

void empty_cache() {
  detail::not_in_a_graph("empty_cache", "memory goes back to the device");
  detail::trim_thread(detail::thread_memory);
  detail::trim_impls(detail::thread_impls.free);
  detail::trim_returned();
  detail::trim_nodes();
  for (const BlockAllocator* a : detail::block_allocators)
    if (a) a->trim();
}

i64 pooled_objects() {
  i64 n = detail::pooled_nodes();
  for (const TensorImpl* p = detail::thread_impls.free; p; p = p->next) ++n;
  return n;
}

__attribute__((no_sanitize("thread"))) LiveObjects live_objects() {
  detail::Registry& r = detail::registry();
  const std::lock_guard lock(r.mutex);
  LiveObjects n = r.ended_objects;
  n.storages += r.ended.live_storages;
  for (const detail::ThreadMemory* t : r.threads) n.storages += t->live_storages;
  for (const detail::ThreadImpls* t : r.impls) {
    n.tensors += t->live;
    n.nodes += t->live_nodes;
  }
  return n;
}

}  // namespace memory
}  // namespace wt
