#include "warptape/kernels/cuda/allocator.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "warptape/core/error.h"

namespace wt {

void CudaPool::EventTraits::destroy(void* e) noexcept {
  if (const CudaApi* api = cuda_api()) api->free_event(e);
}

CudaPool::CudaPool(const CudaApi& api, int device, bool direct)
    : api_(api), device_(device), direct_(direct), table_(256) {}

// The segments stay the process's: at its end the driver takes them, and tensors may outlive this.
CudaPool::~CudaPool() {
  for (Block* b : table_) delete b;
  for (Block* b : spare_) delete b;
  for (auto& [key, bins] : bins_) delete bins;
}

// Four steps an octave, in units; up to 2^40 units.
int CudaPool::bin_of(i64 bytes) {
  const u64 n = u64(bytes / kUnit);
  const int octave = 63 - std::countl_zero(n);
  const int step = int((octave >= 2 ? n >> (octave - 2) : n << (2 - octave)) & 3);
  return octave * 4 + step;
}
int CudaPool::first_bin_for(i64 bytes) {
  const u64 n = u64(bytes / kUnit);
  const int octave = 63 - std::countl_zero(n);
  const u64 up = octave >= 2 ? (u64{1} << (octave - 2)) - 1 : 0;
  return bin_of(i64(n + up) * kUnit);
}
i64 CudaPool::segment_bytes(i64 bytes) {
  constexpr i64 kMiB = i64{1} << 20;
  if (bytes <= kSmall) return 2 * kMiB;
  if (bytes < 10 * kMiB) return 20 * kMiB;
  return (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
}

// --- the free lists ---
CudaPool::Bins& CudaPool::bins_for(void* stream, bool small) {
  if (last_ && last_->stream == stream && last_->small == small) return *last_;
  Bins*& b = bins_[{stream, small}];
  if (!b) {
    b = new Bins;
    b->stream = stream;
    b->small = small;
  }
  return *(last_ = b);
}

void CudaPool::push(Block* b) {
  Bins& bins = *b->owner;
  const int bin = bin_of(b->bytes);
  b->previous = nullptr;
  b->next = bins.head[bin];
  if (b->next) b->next->previous = b;
  bins.head[bin] = b;
  bins.filled[bin / 64] |= u64{1} << (bin % 64);
}

void CudaPool::remove(Block* b) {
  Bins& bins = *b->owner;
  const int bin = bin_of(b->bytes);
  if (b->next) b->next->previous = b->previous;
  if (b->previous)
    b->previous->next = b->next;
  else if (!(bins.head[bin] = b->next))
    bins.filled[bin / 64] &= ~(u64{1} << (bin % 64));
}

CudaPool::Block* CudaPool::find(Bins& bins, i64 bytes) {
  // Blocks of nearly this size: the best of the newest few.
  constexpr int kLook = 16;
  const int own = bin_of(bytes);
  Block* best = nullptr;
  int seen = 0;
  for (Block* b = bins.head[own]; b && seen < kLook; b = b->next, ++seen) {
    if (b->bytes < bytes || (best && b->bytes >= best->bytes)) continue;
    best = b;
    if (b->bytes == bytes) break;
  }
  if (best) return best;
  for (int bin = std::max(first_bin_for(bytes), own + 1), word = bin / 64; word < 3; ++word) {
    u64 bits = bins.filled[word];
    if (word == bin / 64) bits &= ~u64{0} << (bin % 64);
    if (bits) return bins.head[word * 64 + std::countr_zero(bits)];
  }
  return nullptr;
}

// Leaves the rest of a block that is being handed out free.
void CudaPool::split(Block* b, i64 bytes) {
  const i64 rest = b->bytes - bytes;
  if (rest < (b->owner->small ? kUnit : kSmall + kUnit)) return;
  Block* r = new_block();
  r->data = b->data + bytes;
  r->bytes = rest;
  r->owner = b->owner;
  r->before = b;
  r->after = b->after;
  if (r->after) r->after->before = r;
  b->after = r;
  b->bytes = bytes;
  r->free = true;
  insert(r);
  push(r);
}

// `second` becomes part of `first`; neither is in a bin.
CudaPool::Block* CudaPool::merge(Block* first, Block* second) {
  first->bytes += second->bytes;
  first->after = second->after;
  if (first->after) first->after->before = first;
  erase(second);
  drop_block(second);
  return first;
}

void CudaPool::make_free(Block* b) {
  if (Block* n = b->after; n && n->free) {
    remove(n);
    merge(b, n);
  }
  if (Block* p = b->before; p && p->free) {
    remove(p);
    b = merge(p, b);
  }
  b->free = true;
  push(b);
}

CudaPool::Block* CudaPool::new_block() {
  if (spare_.empty()) return new Block;
  Block* b = spare_.back();
  spare_.pop_back();
  return b;
}
void CudaPool::drop_block(Block* b) {
  b->before = b->after = b->previous = b->next = nullptr;
  b->free = false;
  b->events = 0;
  b->users.clear();
  spare_.push_back(b);
}

// --- blocks by address ---
void CudaPool::insert(Block* b) {
  if (used_slots_ * 2 >= table_.size()) grow_table();
  size_t i = hash(b->data) & (table_.size() - 1);
  while (table_[i]) i = (i + 1) & (table_.size() - 1);
  table_[i] = b;
  ++used_slots_;
}
CudaPool::Block* CudaPool::lookup(const void* data) const {
  for (size_t i = hash(data) & (table_.size() - 1); table_[i]; i = (i + 1) & (table_.size() - 1))
    if (table_[i]->data == data) return table_[i];
  return nullptr;
}
CudaPool::Block* CudaPool::holder(const void* address) const {
  if (Block* b = lookup(address)) return b;  // a tensor's beginning, most often
  const char* p = static_cast<const char*>(address);
  auto it = segments_.upper_bound(p);
  if (it == segments_.begin()) return nullptr;
  --it;
  if (p >= it->first + it->second.bytes) return nullptr;
  Block* b = it->second.first;
  while (p >= b->data + b->bytes) b = b->after;
  return b;
}
void CudaPool::erase(const Block* b) {
  const size_t mask = table_.size() - 1;
  size_t hole = hash(b->data) & mask;
  while (table_[hole] != b) hole = (hole + 1) & mask;
  // Later entries of the run move up, or they could not be found across the hole.
  for (size_t i = (hole + 1) & mask; table_[i]; i = (i + 1) & mask) {
    const size_t home = hash(table_[i]->data) & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    table_[hole] = table_[i];
    hole = i;
  }
  table_[hole] = nullptr;
  --used_slots_;
}
void CudaPool::grow_table() {
  std::vector<Block*> old(table_.size() * 2);
  old.swap(table_);
  used_slots_ = 0;
  for (Block* b : old)
    if (b) insert(b);
}

// --- segments ---
bool CudaPool::map_memory(void** data, i64 bytes) {
  size_t there = 0, total = 0;
  if (api_.memory_info(&there, &total) == kCudaSuccess) {
    const size_t reserve = std::min(total / 64, size_t{256} << 20);
    if (there < size_t(bytes) + reserve) return false;
  } else {
    api_.last_error();  // cudaMalloc will tell
  }
  const int code = api_.take_memory(data, size_t(bytes));
  if (code == kCudaOutOfMemory) {
    api_.last_error();  // or the next launch would report it
    return false;
  }
  cuda_check(code, "cudaMalloc", device_);
  ++stats_.mallocs;
  ++stats_.segments;
  stats_.reserved += bytes;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return true;
}
void CudaPool::unmap_memory(void* data, i64 bytes) {
  api_.free_memory(data);
  ++stats_.frees;
  --stats_.segments;
  stats_.reserved -= bytes;
}

CudaPool::Block* CudaPool::new_segment(Bins& bins, i64 bytes) {
  void* data = nullptr;
  if (!map_memory(&data, bytes)) return nullptr;
  Block* b = new_block();
  b->data = static_cast<char*>(data);
  b->bytes = bytes;
  b->owner = &bins;
  b->free = true;
  segments_[b->data] = {bytes, b};  // it stays the first: a block merges into the one before it
  insert(b);
  push(b);
  return b;
}

// cudaFree does not promise to wait for every stream, so that is done first.
void CudaPool::release_segments() {
  std::vector<Block*> whole;
  for (Block* b : table_)
    if (b && b->free && !b->before && !b->after) whole.push_back(b);
  if (whole.empty()) return;
  cuda_check(api_.device_synchronize(), "cudaDeviceSynchronize", device_);
  for (Block* b : whole) {
    remove(b);
    erase(b);
    segments_.erase(b->data);
    unmap_memory(b->data, b->bytes);
    drop_block(b);
  }
}

// Blocks whose other users have passed become free. wait: all of them, else those that have.
void CudaPool::collect(bool wait) {
  for (size_t i = 0; i < waiting_.size();) {
    Waiting& w = waiting_[i];
    if (wait) {
      cuda_check(api_.wait_event(w.event.get()), "cudaEventSynchronize", device_);
    } else {
      const int code = api_.query_event(w.event.get());
      if (code == kCudaNotReady) {
        api_.last_error();
        ++i;
        continue;
      }
      cuda_check(code, "cudaEventQuery", device_);
    }
    if (--w.block->events == 0) {
      stats_.waiting -= w.block->bytes;
      make_free(w.block);
    }
    events_.push_back(std::move(w.event));
    if (i + 1 != waiting_.size()) w = std::move(waiting_.back());
    waiting_.pop_back();
  }
}

// No memory for a segment: what is unused is looked for in this order.
CudaPool::Block* CudaPool::recover(Bins& bins, i64 bytes) {
  collect(true);
  if (Block* b = find(bins, bytes)) return b;
  release_segments();
  if (Block* b = new_segment(bins, segment_bytes(bytes))) return b;
  return bins.small ? nullptr : new_segment(bins, bytes);  // without room for neighbours
}

// --- requests ---
void* CudaPool::take(i64 bytes, void* stream) {
  const std::lock_guard lock(mutex_);
  if (direct_) {
    void* data = nullptr;
    if (!map_memory(&data, std::max<i64>(bytes, 1))) return nullptr;
    Block* b = new_block();
    b->data = static_cast<char*>(data);
    b->bytes = std::max<i64>(bytes, 1);
    insert(b);
    stats_.allocated += b->bytes;
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
    return data;
  }
  if (bytes > i64{1} << 46) return nullptr;  // the bins end there
  const i64 n = rounded(bytes);
  if (!waiting_.empty()) collect(false);
  Bins& bins = bins_for(stream, n <= kSmall);
  Block* b = find(bins, n);
  if (!b) b = new_segment(bins, segment_bytes(n));
  if (!b) b = recover(bins, n);
  if (!b) return nullptr;
  remove(b);
  b->free = false;
  split(b, n);
  stats_.allocated += b->bytes;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  return b->data;
}

void CudaPool::note_use(Block* b, void* stream) {
  if (!b || b->free || b->owner->stream == stream) return;
  if (std::find(b->users.begin(), b->users.end(), stream) == b->users.end())
    b->users.push_back(stream);
}

void CudaPool::use(const void* data, void* stream) {
  if (direct_) return;  // give() waits for the whole device
  const std::lock_guard lock(mutex_);
  note_use(holder(data), stream);
}

void CudaPool::use_all(const void* words, size_t bytes, void* stream) {
  if (direct_) return;
  const std::lock_guard lock(mutex_);
  u64 word;
  for (size_t at = 0; at + sizeof word <= bytes; at += sizeof word) {
    std::memcpy(&word, static_cast<const char*>(words) + at, sizeof word);
    // Sizes and strides are no addresses: nothing is mapped below 64 KiB.
    if (word >= 1 << 16) note_use(holder(reinterpret_cast<const void*>(word)), stream);
  }
}

void CudaPool::give(void* data) noexcept {
  const std::lock_guard lock(mutex_);
  Block* b = lookup(data);
  if (!b || b->free) return;
  stats_.allocated -= b->bytes;
  if (direct_) {
    erase(b);
    api_.device_synchronize();  // its users may be on any stream
    unmap_memory(b->data, b->bytes);
    drop_block(b);
    return;
  }
  for (void* stream : b->users) {
    EventHandle event;
    if (!events_.empty()) {
      event = std::move(events_.back());
      events_.pop_back();
    } else {
      void* made = nullptr;
      if (api_.make_event(&made, false) == kCudaSuccess) event = EventHandle(made);
    }
    // An error is the device's end and has been or will be reported; nobody uses it any more.
    if (!event || api_.record(event.get(), stream) != kCudaSuccess) continue;
    ++b->events;
    waiting_.push_back({b, std::move(event)});
  }
  b->users.clear();
  if (b->events == 0)
    make_free(b);
  else
    stats_.waiting += b->bytes;
}

void CudaPool::trim() {
  const std::lock_guard lock(mutex_);
  collect(true);
  release_segments();
}

CudaPoolStats CudaPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

memory::PoolShape CudaPool::shape() const {
  const std::lock_guard lock(mutex_);
  memory::PoolShape all;
  for (const Block* b : table_) {
    if (!b || !b->free) continue;
    all.free += b->bytes;
    all.largest_free = std::max(all.largest_free, b->bytes);
  }
  return all;
}

}  // namespace wt
