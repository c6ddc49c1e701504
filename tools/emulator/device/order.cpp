// The shadow of device memory: who touched each 32 bytes last, and whether that is over.
#include <algorithm>

#include "device/op.h"
#include "device/queue.h"
#include "device/settings.h"

namespace emu {
namespace {

// Operations in the shadow are 31 bits of the serial, and a bit for atomics.
constexpr u32 kSerialMask = 0x7fffffff;
constexpr u32 kAtomic = 0x80000000;

// Serials are told apart by 31 bits: of two billion operations the newest is meant.
u64 whole(u32 tag, u64 newest) {
  const u64 low = tag & kSerialMask;
  const u64 serial = (newest & ~u64(kSerialMask)) | low;
  return serial > newest ? serial - kSerialMask - 1 : serial;
}

// Of the operation that asked last: most accesses of a kernel meet one other operation.
struct Memo {
  u64 op = 0;
  u32 other = 0;
  bool before = false;
};
Memo memo;

// Operations run out of the order they were queued in: one with a later serial that ran already did
// not wait for this one, so nothing orders the two.
bool is_before(u32 tag, const QueuedOp& op) {
  if (memo.op == op.serial && memo.other == (tag & kSerialMask)) return memo.before;
  const u64 serial = whole(tag, newest_serial());
  u32 lane = 0;
  const bool before = serial <= op.clock->floor || !lane_of(serial, &lane) ||
                      (lane == op.lane && serial < op.serial) || op.clock->has(lane, serial);
  memo = {op.serial, tag & kSerialMask, before};
  return before;
}

bool conflicts(u32 tag, u32 bytes, u32 mask, u32 me, const QueuedOp& op) {
  if (!(bytes & mask) || tag == 0) return false;
  if (((tag ^ me) & kSerialMask) == 0) return false;
  if (tag & me & kAtomic) return false;
  return !is_before(tag, op);
}

void fill_in(u32& who, u32& bytes, u32 me, u32 mask) {
  if (who == me) {
    bytes |= mask;
  } else {
    who = me;
    bytes = mask;
  }
}

bool note(const QueuedOp& op, u64 address, u64 bytes, bool write, bool atomic, Conflict* found) {
  Sector* s = shadow_of(address);
  if (!s || bytes == 0) return true;
  u32 me = u32(op.serial) & kSerialMask;
  if (atomic) me |= kAtomic;
  const u64 end = address + bytes;
  for (u64 at = address; at < end; ++s) {
    const u64 next = (at | 31) + 1;
    const u32 first = u32(at & 31), count = u32(std::min(next, end) - at);
    const u32 mask = (count == 32 ? ~u32(0) : (1u << count) - 1) << first;
    if (conflicts(s->writer, s->written, mask, me, op)) {
      *found = {recent_op(whole(s->writer, newest_serial())), true};
      return false;
    }
    if (write) {
      if (conflicts(s->reader, s->read, mask, me, op)) {
        *found = {recent_op(whole(s->reader, newest_serial())), false};
        return false;
      }
      fill_in(s->writer, s->written, me, mask);
    } else if (s->reader == me || s->reader == 0 || is_before(s->reader, op)) {
      // Of two readers that nothing orders the first stays: a write of the second will meet it.
      fill_in(s->reader, s->read, me, mask);
    }
    at = next;
  }
  return true;
}

}  // namespace

bool note_access(const QueuedOp& op, u64 address, u32 bytes, bool write, Conflict* found,
                 bool atomic) {
  static const bool on = settings().order;
  return !on || note(op, address, bytes, write, atomic, found);
}

bool note_range(const QueuedOp& op, u64 address, u64 bytes, bool write, Conflict* found) {
  return !settings().order || note(op, address, bytes, write, false, found);
}

bool host_knows(u64 address, u64 bytes, Conflict* found) {
  if (!settings().order) return true;
  const Sector* s = shadow_of(address);
  if (!s) return true;
  const Clock& host = *host_clock();
  const u64 newest = newest_serial();
  const auto known = [&](u32 tag) {
    u32 lane = 0;
    const u64 serial = whole(tag, newest);
    return tag == 0 || serial <= host.floor || !lane_of(serial, &lane) || host.has(lane, serial);
  };
  u32 seen = 0;
  for (const Sector* end = s + (bytes + 31) / 32; s < end; ++s) {
    for (const u32 tag : {s->writer, s->reader}) {
      if (tag == seen || known(tag)) {
        seen = tag;
        continue;
      }
      *found = {recent_op(whole(tag, newest)), tag == s->writer};
      return false;
    }
  }
  return true;
}

}  // namespace emu
