// What memory::stats() does not count: what the pools keep, how it is cut up, and what is taken of
// the device beside tensors.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/memory.h"

namespace wt::memory {

// A part of `external` that the library saw being taken.
struct External {
  std::string name{};  // "NCCL"
  i64 bytes = 0;
};

// stats() and more; PyTorch's memory_allocated() is `live`, its memory_reserved() `reserved`.
struct Footprint : Stats {
  i64 idle =
      0;  // of `reserved`, what no tensor asked for: free blocks, and what sizes are rounded by
  // Of the pool's free bytes the part that does not lie in its largest free block, 0 to 1: a
  // request for more than the rest of them goes to the system though that many bytes are free.
  // cuda's pool cuts its segments into blocks; cpu and simt keep blocks whole, by size, and have 0.
  double fragmentation = 0;
  i64 largest_free = 0;  // cuda: bytes of that block
  // Taken and not by the pools. cuda: of the device's memory, as the driver counts it; CUDA's
  // context and code, libraries' workspaces, NCCL's buffers, and other processes, which
  // machine::state() tells apart: reserved + external is what cudaMemGetInfo() has as not free. cpu
  // and simt: of what this process has in host memory (simt's pool counts as the host's), code and
  // stacks among it.
  i64 external = 0;
  // cuda: what the device lost, beside the pools, while the library made these; more may be there.
  std::vector<External> parts{};
};

// Waits for nothing; takes a file's reading (cpu, simt) or a call of the driver (cuda). Of a meta
// device: stats(). Throws NotAvailable and PlacementError for a device that cannot be used.
WT_API Footprint footprint(Device d);

// --- for the library ---
// How a device's pool is cut up; set by its runtime.
struct PoolShape {
  i64 free = 0, largest_free = 0;  // bytes in free blocks
};
using PoolShapeOf = PoolShape (*)(Device);
void set_pool_shape(DeviceKind k, PoolShapeOf f);

// What `d` has less, beside the pools, at the end of this than at its beginning belongs to `name`
// (which lives for ever). cuda only; nothing where the driver does not tell.
class ExternalScope {
 public:
  ExternalScope(Device d, const char* name);
  ~ExternalScope();
  ExternalScope(const ExternalScope&) = delete;
  ExternalScope& operator=(const ExternalScope&) = delete;

 private:
  Device device_;
  const char* name_;
  i64 before_;
};

}  // namespace wt::memory
