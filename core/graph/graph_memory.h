// The memory of graphs. Internal.
//
// A graph's launches have addresses in them, so a block that they use is nobody else's while the
// graph lives. Blocks come from the device's allocator while the work is warmed up, go back to this
// list when their tensors die, and are taken from it again in the capture, which therefore needs
// nothing from the device: no cudaMalloc and no question about an event, which a capture forbids.
// A block is handed out again for requests of its own size. That costs some memory, and makes sure
// that what was enough for the warm-up is enough for the capture, whose requests are the same ones.
// Where they are not (the function kept something), a capture takes a larger one if it can.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "warptape/core/device.h"

namespace wt::detail {

class GraphMemory : public std::enable_shared_from_this<GraphMemory> {
 public:
  explicit GraphMemory(Device d) : device_(d) {}
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  // Null: there is none, and `may_grow` is false or the device has no more.
  void* take(i64 bytes, bool may_grow);
  i64 bytes() const;
  bool owns(const void* data) const;

  // Puts a block back where it came from; false: no graph's.
  static bool give(void* data) noexcept;

 private:
  static i64 rounded(i64 bytes) { return (bytes + 511) / 512 * 512; }

  const Device device_;
  std::map<i64, std::vector<void*>> free_;  // by rounded size
  std::vector<void*> mine_;                 // all
  i64 bytes_ = 0;
};

}  // namespace wt::detail
