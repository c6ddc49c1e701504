#include "warptape/core/memory/pinned.h"

#include <cstring>
#include <mutex>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/storage.h"
#include "warptape/core/tensor.h"

namespace wt {
namespace {

// Above this, take_pinned() waits for a copy rather than locking more memory.
constexpr i64 kLimit = i64{1} << 30;
// Pieces of a large copy, and how many are under way at once: enough to keep the link busy while
// the host fills the next one.
constexpr i64 kPiece = i64{4} << 20;
constexpr int kPieces = 4;

struct Pool {
  std::mutex mutex;
  PinnedBlock* idle[detail::kSizeClasses] = {};  // oldest first
  i64 bytes = 0;
};
Pool& pool() {
  static Pool* p = new Pool;
  return *p;
}

u32 class_of(i64 bytes) { return detail::size_class(u64(bytes < 4096 ? 4096 : bytes)); }

bool is_free(PinnedBlock* b) {
  if (!b->busy.load(std::memory_order_acquire)) return true;
  if (!b->event.done()) return false;
  b->wait();
  return true;
}

// The first block of the class and kind of device that no copy uses; with `wait`, else the oldest
// after its copy. Another kind's memory is not locked for this one, and not this one's to free.
PinnedBlock* pop(Pool& p, u32 c, DeviceKind kind, bool wait) {
  PinnedBlock** oldest = nullptr;
  for (PinnedBlock** at = &p.idle[c]; *at; at = &(*at)->next) {
    if ((*at)->device.kind != kind) continue;
    if (!oldest) oldest = at;
    if (!is_free(*at)) continue;
    PinnedBlock* b = *at;
    *at = b->next;
    return b;
  }
  if (!wait || !oldest) return nullptr;
  PinnedBlock* b = *oldest;
  *oldest = b->next;
  b->wait();
  return b;
}

void trim_locked(Pool& p) {
  for (PinnedBlock*& head : p.idle)
    for (PinnedBlock** at = &head; *at;) {
      PinnedBlock* b = *at;
      if (!is_free(b)) {
        at = &b->next;
        continue;
      }
      *at = b->next;
      p.bytes -= b->bytes;
      stream_backend(b->device)->give_host(b->data);
      delete b;
    }
}

}  // namespace

void PinnedBlock::mark_busy(Device d, const Stream& stream) {
  if (busy.load(std::memory_order_acquire)) stream.wait(event);  // one mark for both copies
  if (!(event.device() == d)) event = Event(d);
  device = d;
  {
    const StreamScope on(stream);
    event.record();
  }
  if (!busy.exchange(true) && visible)
    process_slow.fetch_add(kSlowHostCopies, std::memory_order_relaxed);
}

void PinnedBlock::wait() {
  if (!busy.load(std::memory_order_acquire)) return;
  if (!event.done()) event.synchronize();  // what has passed is no wait, which a SyncGuard refuses
  if (busy.exchange(false) && visible)
    process_slow.fetch_sub(kSlowHostCopies, std::memory_order_relaxed);
}

PinnedBlock* take_pinned(Device d, i64 bytes) {
  const StreamBackend* backend = stream_backend(d);
  WT_INTERNAL_ASSERT(backend && bytes > 0);
  const u32 c = class_of(bytes);
  if (c >= u32(detail::kSizeClasses))
    throw OutOfMemory(str("page-locked memory of ", bytes, " bytes"));
  const i64 rounded = i64(detail::class_bytes(c));
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  if (PinnedBlock* b = pop(p, c, d.kind, p.bytes + rounded > kLimit)) {
    b->device = d;
    return b;
  }
  void* data = backend->take_host(rounded);
  if (!data) {
    trim_locked(p);
    data = backend->take_host(rounded);
  }
  if (!data)
    throw OutOfMemory(str("page-locked host memory: ", bytes, " bytes asked for, ", p.bytes,
                          " held\n  Nothing was changed"));
  p.bytes += rounded;
  auto* b = new PinnedBlock;
  b->data = data;
  b->bytes = rounded;
  b->device = d;
  return b;
}

void give_pinned(PinnedBlock* b) noexcept {
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  if (b->visible && b->busy.load(std::memory_order_acquire))
    process_slow.fetch_sub(kSlowHostCopies, std::memory_order_relaxed);
  b->visible = false;
  b->next = nullptr;
  PinnedBlock** at = &p.idle[detail::size_class(u64(b->bytes))];
  while (*at) at = &(*at)->next;
  *at = b;
}

void trim_pinned() {
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  trim_locked(p);
}

i64 pinned_bytes() {
  Pool& p = pool();
  const std::lock_guard lock(p.mutex);
  return p.bytes;
}

namespace {
// Blocks of one copy; goes through their ring and gives them back at its end, busy or not.
struct Ring {
  explicit Ring(Device d, i64 bytes) : device(d), piece(bytes < kPiece ? bytes : kPiece) {}
  ~Ring() {
    for (PinnedBlock* b : blocks)
      if (b) give_pinned(b);
  }
  PinnedBlock* at(i64 i) {
    PinnedBlock*& b = blocks[i % kPieces];
    if (!b)
      b = take_pinned(device, piece);
    else
      b->wait();
    return b;
  }
  Device device;
  i64 piece;
  PinnedBlock* blocks[kPieces] = {};
};
}  // namespace

void staged_from_host(void* to, Device d, const void* host, i64 bytes) {
  const StreamBackend* backend = stream_backend(d);
  const Stream stream = Stream::current(d);
  Ring ring(d, bytes);
  for (i64 done = 0, i = 0; done < bytes; done += ring.piece, ++i) {
    const i64 n = bytes - done < ring.piece ? bytes - done : ring.piece;
    PinnedBlock* b = ring.at(i);
    std::memcpy(b->data, static_cast<const char*>(host) + done, size_t(n));
    backend->from_host(static_cast<char*>(to) + done, d, b->data, n, stream.native());
    b->mark_busy(d, stream);
  }
}

void staged_to_host(void* host, Device d, const void* from, i64 bytes) {
  const StreamBackend* backend = stream_backend(d);
  const Stream stream = Stream::current(d);
  Ring ring(d, bytes);
  const i64 pieces = (bytes + ring.piece - 1) / ring.piece;
  const auto length = [&](i64 i) {
    return i + 1 < pieces ? ring.piece : bytes - (pieces - 1) * ring.piece;
  };
  const auto drain = [&](i64 i) {
    PinnedBlock* b = ring.at(i);  // waits for its copy
    std::memcpy(static_cast<char*>(host) + i * ring.piece, b->data, size_t(length(i)));
  };
  for (i64 i = 0; i < pieces; ++i) {
    if (i >= kPieces) drain(i - kPieces);
    PinnedBlock* b = ring.at(i);
    backend->to_host(b->data, d, static_cast<const char*>(from) + i * ring.piece, length(i),
                     stream.native());
    b->mark_busy(d, stream);
  }
  for (i64 i = pieces < kPieces ? 0 : pieces - kPieces; i < pieces; ++i) drain(i);
}

}  // namespace wt
