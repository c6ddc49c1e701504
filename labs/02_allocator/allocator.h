// What you write in allocator.cpp. The lab's checks call make_allocator() and what it returns.
#pragma once
#include <memory>

#include "warptape/core/types.h"

namespace blocks {

using wt::i64;

// --- given ---

// The device's own allocator. Each call stops the device until it has done all that is queued, as
// cudaMalloc and cudaFree do. Addresses are the device's: the host can compute with them, and
// reading or writing there ends the process.
class System {
 public:
  virtual ~System() = default;
  // 512-byte aligned. Null when the device has no room. Neighbouring addresses of two segments are
  // chance, and do not make them one.
  virtual void* take(i64 bytes) = 0;
  // What take() gave, whole and once.
  virtual void give(void* segment) = 0;
};

inline constexpr i64 kUnit = 512;              // sizes of blocks are multiples, at least one
inline constexpr i64 kSegment = i64(2) << 20;  // sizes of segments are multiples, at least one

// --- yours ---

class Allocator {
 public:
  virtual ~Allocator() = default;  // gives all segments back

  // A block of at least `bytes` (0 and more), for work on `stream`, that begins at a multiple of
  // kUnit and overlaps with no other block that is in use. Of the free blocks of this stream it
  // takes the smallest that is large enough, of several such the one with the lowest address, and
  // what it does not need of it stays free. If there is none, it takes a segment from the system:
  // the smallest that is large enough. If the system has no room, it gives all segments that are
  // wholly free back to the system, those of other streams too, and tries once more. Null if that
  // fails; nothing has changed then but what was given back.
  virtual void* take(i64 bytes, int stream) = 0;

  // The block is free again, at once: work on its stream runs in order. Free blocks that are
  // neighbours in one segment are one block. Blocks stay with their segment's stream.
  virtual void give(void* block) = 0;

  // Gives segments that are wholly free back to the system.
  virtual void trim() = 0;
};

std::unique_ptr<Allocator> make_allocator(System& system);

// For the challenge: an allocator with a rule of your own, which reserves little more than is in
// use though sizes grow from step to step, and seldom calls the system.
std::unique_ptr<Allocator> make_thrifty_allocator(System& system);

}  // namespace blocks
