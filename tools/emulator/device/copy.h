// Copies, fills and host functions as queued work.
#pragma once
#include "device/op.h"

namespace emu {

// Rows of `width` bytes, `height` of them a slice. A plain copy is one row.
struct CopyShape {
  u64 to = 0, from = 0;
  u64 width = 0, height = 1, depth = 1;
  u64 to_pitch = 0, to_slice = 0, from_pitch = 0, from_slice = 0;
  u64 bytes() const { return width * height * depth; }
  u64 to_end() const { return end(to, to_pitch, to_slice); }
  u64 from_end() const { return end(from, from_pitch, from_slice); }

 private:
  u64 end(u64 at, u64 pitch, u64 slice) const {
    return bytes() ? at + (depth - 1) * slice + (height - 1) * pitch + width : at;
  }
};

struct CopyWork : Work {
  explicit CopyWork(const CopyShape& s) : Work(WorkKind::copy), shape(s) {}
  void run(QueuedOp& op) override;
  std::string name() const override;
  Touch touches(u64 begin, u64 end) const override;

  // Pageable memory: the call takes the bytes. Not for a graph's node.
  void take_source();
  // Page-locked memory: the call remembers the bytes, and the copy compares. Not for a graph's
  // node.
  void watch_source();

  const CopyShape shape;

 private:
  u64 hash_source() const;
  std::vector<u8> taken_;
  bool took_ = false, watched_ = false;
  u64 hash_ = 0;
};

struct FillWork : Work {
  FillWork(const CopyShape& s, u32 v, u32 element)
      : Work(WorkKind::fill), shape(s), value(v), bytes(element) {}
  void run(QueuedOp& op) override;
  std::string name() const override;
  Touch touches(u64 begin, u64 end) const override;
  const CopyShape shape;   // of `to`
  const u32 value, bytes;  // of an element: 1, 2 or 4
};

// cudaLaunchHostFunc, and cudaStreamAddCallback's, which also hears of errors.
struct HostWork : Work {
  HostWork(void (*f)(void*), void* d) : Work(WorkKind::host), function(f), data(d) {}
  HostWork(void* s, void (*f)(void*, int, void*), void* d)
      : Work(WorkKind::host), stream(s), callback(f), data(d) {}
  void call(int error) const;       // outside the lock
  void run(QueuedOp& op) override;  // when it has returned
  std::string name() const override;
  bool runs_on_lost_device() const override { return callback; }
  Touch touches(u64, u64) const override { return Touch::writes; }  // nobody knows
  void* const stream = nullptr;
  void (*const function)(void*) = nullptr;
  void (*const callback)(void*, int, void*) = nullptr;
  void* const data;
};

// Whether work that is queued may write (or, if `reads`, touch) these bytes of the host.
const QueuedOp* pending_on(u64 begin, u64 end, bool reads);

// A range that queued work uses must be memory of one live block. Else it is reported, the device
// is lost, and null returned.
u8* usable(const QueuedOp& op, u64 address, u64 bytes, const char* what);

}  // namespace emu
