// Page-locked host memory that devices copy from and to while the host goes on. Internal; users see
// core/async_copy.h.
#pragma once
#include "warptape/core/stream.h"

namespace wt {

// A block of page-locked memory and the copy that may be using it.
struct PinnedBlock {
  void* data = nullptr;
  i64 bytes = 0;  // of its size class
  Device device;  // whose copy `event` marks; of the kind that has locked the memory
  Event event{Device::cpu()};
  std::atomic<bool> busy{false};  // a copy may be under way until `event`
  bool visible = false;           // a tensor lies in it: operators must look whether it is busy
  PinnedBlock* next = nullptr;    // in a list of idle blocks

  // The work now queued on `stream` of `d` uses the block.
  void mark_busy(Device d, const Stream& stream);
  // Waits until no copy uses it.
  void wait();
};

// A block of at least `bytes` that no copy uses, for `d` (a device with a stream backend). Throws
// OutOfMemory. A block that was given back busy is handed out when its copy is done.
PinnedBlock* take_pinned(Device d, i64 bytes);
void give_pinned(PinnedBlock* b) noexcept;
// Returns idle blocks to the system.
void trim_pinned();
// Bytes of page-locked memory in the process.
i64 pinned_bytes();

// Copies through page-locked blocks in pieces: the queue of `stream` is not waited for when bytes
// go to the device (the host's bytes may be changed on return), and is when they come back.
void staged_from_host(void* device_to, Device d, const void* host, i64 bytes);
void staged_to_host(void* host, Device d, const void* device_from, i64 bytes);

}  // namespace wt
