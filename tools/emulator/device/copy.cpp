#include "device/copy.h"

#include <driver_types.h>

#include <cstdio>
#include <cstring>

#include "device/context.h"
#include "device/gpu.h"
#include "device/queue.h"

namespace emu {
namespace {

constexpr double kStart = 2000;       // modelled nanoseconds before the first byte
constexpr double kLinkRate = 25;      // bytes a nanosecond between host and device
constexpr double kPageableRate = 10;  // and through the driver's buffers

template <class F>
void each_row(const CopyShape& s, F&& f) {
  for (u64 z = 0; z < s.depth; ++z)
    for (u64 y = 0; y < s.height; ++y)
      if (!f(s.to + z * s.to_slice + y * s.to_pitch, s.from + z * s.from_slice + y * s.from_pitch))
        return;
}

void report_order(const QueuedOp& op, u64 address, bool write, const Conflict& c) {
  finding(name_of(op) + (write ? " writes" : " reads") + " memory that another operation " +
              (c.other_wrote ? "writes" : "reads") + ", and nothing orders them",
          describe_address(address) + "\n  this is operation " + std::to_string(op.serial) +
              " on " + op.stream + ", queued" + describe(op.from) + "\n  the other is " +
              describe_op(c.other));
}

void check_order(const QueuedOp& op, u64 address, u64 bytes, bool write) {
  Conflict c;
  if (!note_range(op, address, bytes, write, &c)) report_order(op, address, write, c);
}

u64 mix(u64 h, u64 x) {
  h = (h ^ x) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}
u64 hash_of(u64 h, const u8* p, u64 bytes) {
  for (; bytes >= 8; p += 8, bytes -= 8) {
    u64 x;
    std::memcpy(&x, p, 8);
    h = mix(h, x);
  }
  u64 x = bytes;
  std::memcpy(&x, p, bytes);
  return mix(h, x);
}

const char* place_of(u64 address) {
  const Block* b = find_block(address);
  if (!b) return "host";
  return b->kind == BlockKind::device   ? "device"
         : b->kind == BlockKind::pinned ? "pinned"
                                        : "managed";
}
bool on_device(u64 address) {
  const Block* b = find_block(address);
  return b && b->kind == BlockKind::device;
}

}  // namespace

u8* usable(const QueuedOp& op, u64 address, u64 bytes, const char* what) {
  if (const Block* b = find_block(address, bytes))
    return reinterpret_cast<u8*>(address + u64(b->alias));
  char text[64];
  std::snprintf(text, sizeof text, "%s: 0x%llx is ", what,
                static_cast<unsigned long long>(address));
  finding(name_of(op) + " uses memory that is gone",
          text + describe_address(address) + "\n  operation " + std::to_string(op.serial) + " on " +
              op.stream + ", queued" + describe(op.from));
  lose_device(op.device, cudaErrorIllegalAddress);
  return nullptr;
}

// Memory that was no block when the copy was queued is the program's own, pageable.
void CopyWork::run(QueuedOp& op) {
  const bool from_block =
      in_device_space(shape.from) || in_host_space(shape.from) || find_block(shape.from);
  const bool to_block =
      in_device_space(shape.to) || in_host_space(shape.to) || find_block(shape.to);
  if (watched_ && hash_source() != hash_)
    finding("host memory changed before its copy to the device ran",
            describe_address(shape.from) + "\n  " + describe_op(&op));
  const u8* taken = taken_.data();
  each_row(shape, [&](u64 to, u64 from) {
    if (shape.width == 0) return false;
    const u8* source = took_ ? taken : reinterpret_cast<const u8*>(from);
    u8* target = reinterpret_cast<u8*>(to);
    if (from_block && !took_) source = usable(op, from, shape.width, "source");
    if (to_block && source) target = usable(op, to, shape.width, "destination");
    if (!source || !target) return false;
    if (from_block && !took_) check_order(op, from, shape.width, false);
    if (to_block) check_order(op, to, shape.width, true);
    std::memmove(target, source, shape.width);
    if (took_) taken += shape.width;
    return true;
  });
  ++totals().copies;
  const bool within = on_device(shape.from) && on_device(shape.to);
  const double rate = within                              ? gpu_model().bytes_per_ns() / 2
                      : took_ || !from_block || !to_block ? kPageableRate
                                                          : kLinkRate;
  op.nanoseconds = kStart + double(shape.bytes()) / rate;
  // The work outlives its run in the memory of recent operations.
  taken_ = {};
}

std::string CopyWork::name() const {
  const char* from = took_ ? "host" : place_of(shape.from);
  std::string text = std::string("copy ") + from + " to " + place_of(shape.to) + ", ";
  if (shape.depth > 1) text += std::to_string(shape.depth) + " x ";
  if (shape.height > 1) text += std::to_string(shape.height) + " x ";
  return text + std::to_string(shape.width) + " bytes";
}

Work::Touch CopyWork::touches(u64 begin, u64 end) const {
  if (shape.to < end && begin < shape.to_end()) return Touch::writes;
  if (!took_ && shape.from < end && begin < shape.from_end()) return Touch::reads;
  return Touch::no;
}

void CopyWork::take_source() {
  taken_.resize(shape.bytes());
  u8* at = taken_.data();
  each_row(shape, [&](u64, u64 from) {
    if (shape.width) std::memcpy(at, reinterpret_cast<const void*>(from), shape.width);
    at += shape.width;
    return true;
  });
  took_ = true;
}

u64 CopyWork::hash_source() const {
  u64 h = 1;
  each_row(shape, [&](u64, u64 from) {
    // Freed: the copy itself says so.
    if (!find_block(from, shape.width)) return false;
    h = hash_of(h, reinterpret_cast<const u8*>(from), shape.width);
    return true;
  });
  return h;
}

void CopyWork::watch_source() {
  watched_ = true;
  hash_ = hash_source();
}

void FillWork::run(QueuedOp& op) {
  each_row(shape, [&](u64 to, u64) {
    if (shape.width == 0) return false;
    u8* target = usable(op, to, shape.width, "destination");
    if (!target) return false;
    check_order(op, to, shape.width, true);
    if (bytes == 1) {
      std::memset(target, int(value), shape.width);
    } else {
      for (u64 i = 0; i + bytes <= shape.width; i += bytes) std::memcpy(target + i, &value, bytes);
    }
    return true;
  });
  op.nanoseconds = kStart + double(shape.bytes()) / gpu_model().bytes_per_ns();
}

std::string FillWork::name() const {
  std::string text = "fill ";
  if (shape.depth > 1) text += std::to_string(shape.depth) + " x ";
  if (shape.height > 1) text += std::to_string(shape.height) + " x ";
  return text + std::to_string(shape.width) + " bytes with " + std::to_string(value);
}

Work::Touch FillWork::touches(u64 begin, u64 end) const {
  return shape.to < end && begin < shape.to_end() ? Touch::writes : Touch::no;
}

void HostWork::call(int error) const {
  if (callback)
    callback(stream, error, data);
  else
    function(data);
}
void HostWork::run(QueuedOp& op) {
  // It may have told a thread that everything before it is over.
  host_learns(*op.clock, op.lane, op.serial);
  op.nanoseconds = 5000;
}

std::string HostWork::name() const { return callback ? "stream callback" : "host function"; }

const QueuedOp* pending_on(u64 begin, u64 end, bool reads) {
  for (const OpRef& op : pending()) {
    const Work::Touch t = op->work->touches(begin, end);
    if (t == Work::Touch::writes || (reads && t == Work::Touch::reads)) return op.get();
  }
  return nullptr;
}

}  // namespace emu
