#include "warptape/core/frame.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "warptape/core/error.h"

namespace wt {
namespace {

constexpr u32 kChunk = 1024, kChunks = 1024;

// Frames sit in chunks that never move, so that readers need no lock.
struct Table {
  std::mutex mutex;
  std::map<std::pair<std::string, u32>, FrameId> ids;
  std::atomic<Frame*> chunks[kChunks]{};
  u32 count = 1;  // id 0 is unknown

  FrameId add(Frame f) {
    if (count == kChunk * kChunks) throw InternalError("more than 2^20 distinct source lines");
    std::atomic<Frame*>& chunk = chunks[count / kChunk];
    if (!chunk.load(std::memory_order_relaxed))
      chunk.store(new Frame[kChunk], std::memory_order_release);
    chunk.load(std::memory_order_relaxed)[count % kChunk] = f;
    return count++;
  }
};
Table& table() {
  static Table* t = new Table;  // outlives static destructors: nodes may die late
  return *t;
}

}  // namespace

namespace detail {
constinit thread_local FrameCacheLine frame_cache[256] = {};

FrameId intern_frame_slow(Frame f) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  auto [it, fresh] = t.ids.try_emplace({f.file, f.line}, FrameId{0});
  if (fresh) it->second = t.add(Frame{it->first.first.c_str(), f.line});
  const u64 hash = (reinterpret_cast<u64>(f.file) >> 4) ^ (f.line * 0x9E3779B1u >> 8);
  frame_cache[hash & 255] = {f.file, f.line, it->second};
  return it->second;
}
}  // namespace detail

Frame frame_of(FrameId id) {
  static Table& t = table();
  if (id == 0) return {};
  const Frame* chunk = t.chunks[id / kChunk].load(std::memory_order_acquire);
  return chunk ? chunk[id % kChunk] : Frame{};
}

std::string describe(Frame f) {
  if (!f.file) return "an unknown line";
  const char* slash = std::strrchr(f.file, '/');
  return std::string(slash ? slash + 1 : f.file) + ":" + std::to_string(f.line);
}

std::string describe_frame(FrameId id) { return describe(frame_of(id)); }

}  // namespace wt
