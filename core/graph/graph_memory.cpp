#include "warptape/core/graph/graph_memory.h"

#include <algorithm>
#include <unordered_map>

#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/storage.h"

namespace wt::detail {

constinit std::atomic<i64> graph_blocks{0};

namespace {

// Blocks that tensors hold. Each keeps its memory: a result may outlive its graph.
struct Held {
  std::shared_ptr<GraphMemory> memory;
  i64 bytes;
};
struct HeldBlocks {
  std::mutex mutex;  // also for every GraphMemory
  std::unordered_map<const void*, Held> all;
};
HeldBlocks& held_blocks() {
  static auto* b = new HeldBlocks;  // outlives static destructors
  return *b;
}

}  // namespace

// By now no tensor holds a block: those would hold this.
GraphMemory::~GraphMemory() {
  for (const auto& [bytes, blocks] : free_)
    for (void* data : blocks) give_device_block(device_, data, bytes);
}

void* GraphMemory::take(i64 bytes, bool may_grow) {
  const i64 n = rounded(bytes);
  HeldBlocks& held = held_blocks();
  void* data = nullptr;
  {
    const std::lock_guard lock(held.mutex);
    auto it = free_.lower_bound(n);
    if (may_grow && it != free_.end() && it->first != n) it = free_.end();
    while (it != free_.end() && it->second.empty()) it = may_grow ? free_.end() : std::next(it);
    if (it != free_.end()) {
      data = it->second.back();
      held.all[data] = {shared_from_this(), it->first};
      it->second.pop_back();
    }
  }
  if (!data) {
    if (!may_grow) return nullptr;
    data = take_device_block(device_, n);
    if (!data) return nullptr;
    const std::lock_guard lock(held.mutex);
    mine_.insert(std::lower_bound(mine_.begin(), mine_.end(), data), data);
    bytes_ += n;
    held.all[data] = {shared_from_this(), n};
  }
  graph_blocks.fetch_add(1, std::memory_order_relaxed);
  return data;
}

bool GraphMemory::give(void* data) noexcept {
  HeldBlocks& held = held_blocks();
  std::shared_ptr<GraphMemory> last;  // dies without the lock
  {
    const std::lock_guard lock(held.mutex);
    const auto it = held.all.find(data);
    if (it == held.all.end()) return false;
    last = std::move(it->second.memory);
    last->free_[it->second.bytes].push_back(data);
    held.all.erase(it);
  }
  graph_blocks.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

i64 GraphMemory::bytes() const {
  const std::lock_guard lock(held_blocks().mutex);
  return bytes_;
}

bool GraphMemory::owns(const void* data) const {
  const std::lock_guard lock(held_blocks().mutex);
  return std::binary_search(mine_.begin(), mine_.end(), const_cast<void*>(data));
}

}  // namespace wt::detail
