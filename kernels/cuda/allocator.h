// The caching allocator of one cuda device. cudaMalloc and cudaFree stop the device; so memory is
// taken in segments, cut into blocks, and blocks are kept when tensors die.
//
// A block belongs to the stream it was taken on, and is handed out again on that stream only, at
// once: work queued later runs later. Other streams that used it (use()) are waited for by events
// first: until they have passed, the block is in nobody's list. Neighbouring free blocks merge; a
// request takes the best of the first fitting ones and leaves the rest of the block free.
//
// Some of the device is never taken: CUDA loads a kernel's code when it first runs (and its stack,
// and cuBLASLt's kernels), which must not fail because tensors hold the last byte. Loading all at
// the start instead would cost seconds and the code of 1300 kernels for the twenty that a model
// uses.
//
// Sizes: multiples of 512 bytes. Requests up to 1 MiB come from 2 MiB segments, up to 10 MiB from
// 20 MiB segments, larger ones get a segment of their own size, rounded up to 2 MiB.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include "warptape/core/memory_footprint.h"
#include "warptape/core/types.h"
#include "warptape/kernels/cuda/api.h"
#include "warptape/kernels/cuda/handle.h"

namespace wt {

struct CudaPoolStats {
  i64 allocated = 0, peak_allocated = 0;  // in blocks that are handed out, rounding included
  i64 reserved = 0, peak_reserved = 0;    // in segments
  i64 waiting = 0;                        // in blocks that other streams may still use
  i64 segments = 0;
  u64 mallocs = 0, frees = 0;  // of the runtime
};

class CudaPool {
 public:
  // direct: every take is a cudaMalloc of exactly its bytes and every give a cudaFree, so that a
  // memory checker sees each tensor's bounds.
  CudaPool(const CudaApi& api, int device, bool direct);
  ~CudaPool();
  CudaPool(const CudaPool&) = delete;
  CudaPool& operator=(const CudaPool&) = delete;

  // At least `bytes`, 256-byte aligned (512 but for `direct`), for work on `stream`. Null when the
  // device has no memory left, even after everything unused went back. Throws DeviceError.
  void* take(i64 bytes, void* stream);
  void give(void* data) noexcept;
  // `stream` uses the block that holds the address, if one that is handed out does.
  void use(const void* data, void* stream);
  // The same of every word of a struct that is such an address.
  void use_all(const void* words, size_t bytes, void* stream);
  // Waits for other streams' uses of given blocks, and gives whole free segments back.
  void trim();
  CudaPoolStats stats() const;
  // Of the blocks that are free now. Walks over all blocks.
  memory::PoolShape shape() const;

 private:
  static constexpr i64 kUnit = 512;
  static constexpr i64 kSmall = i64{1} << 20;
  static constexpr int kBins = 160;
  struct Bins;
  struct Block {
    char* data = nullptr;
    i64 bytes = 0;
    Bins* owner = nullptr;
    Block *before = nullptr, *after = nullptr;   // neighbours in the segment
    Block *previous = nullptr, *next = nullptr;  // in a bin
    bool free = false;
    int events = 0;            // of other streams, still to pass
    std::vector<void*> users;  // other streams, while handed out
  };
  // The free blocks of one stream and segment kind, by size.
  struct Bins {
    void* stream = nullptr;
    bool small = false;
    Block* head[kBins] = {};
    u64 filled[3] = {};  // which bins are not empty
  };
  struct EventTraits {
    using Type = void*;
    static void destroy(void* e) noexcept;
  };
  using EventHandle = CudaHandle<EventTraits>;
  struct Waiting {
    Block* block;
    EventHandle event;
  };

  static i64 rounded(i64 bytes) { return bytes <= 0 ? kUnit : (bytes + kUnit - 1) / kUnit * kUnit; }
  static int bin_of(i64 bytes);         // where a free block of this size is kept
  static int first_bin_for(i64 bytes);  // in this bin and above every block is large enough
  static i64 segment_bytes(i64 bytes);

  Bins& bins_for(void* stream, bool small);
  Block* find(Bins& bins, i64 bytes);
  Block* new_segment(Bins& bins, i64 bytes);
  Block* recover(Bins& bins, i64 bytes);
  void split(Block* b, i64 bytes);
  void push(Block* b);
  void remove(Block* b);
  void make_free(Block* b);
  Block* merge(Block* first, Block* second);
  void collect(bool wait);
  void release_segments();
  Block* new_block();
  void drop_block(Block* b);
  bool map_memory(void** data, i64 bytes);
  void unmap_memory(void* data, i64 bytes);

  // Blocks by address: open addressing, no allocation while the number of blocks stays.
  void insert(Block* b);
  void erase(const Block* b);
  Block* lookup(const void* data) const;
  // The block of any address inside it, free or not; null: none of the pool's.
  Block* holder(const void* address) const;
  void note_use(Block* b, void* stream);
  static u64 hash(const void* p) { return (u64(p) >> 8) * 0x9e3779b97f4a7c15ull >> 20; }
  void grow_table();

  const CudaApi& api_;
  const int device_;
  const bool direct_;
  mutable std::mutex mutex_;
  std::map<std::pair<void*, bool>, Bins*> bins_;
  Bins* last_ = nullptr;  // of the latest request
  std::vector<Block*> table_;
  size_t used_slots_ = 0;
  struct Segment {
    i64 bytes;
    Block* first;
  };
  std::map<const char*, Segment> segments_;  // by address
  std::vector<Block*> spare_;
  std::vector<Waiting> waiting_;
  std::vector<EventHandle> events_;
  CudaPoolStats stats_;
};

}  // namespace wt
