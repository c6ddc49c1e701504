#include "warptape/core/frame.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "warptape/core/error.h"

namespace wt {
namespace {

constexpr u32 kChunk = 1024, kChunks = 1024;

// Frames sit in chunks that never move, so that readers need no lock.
struct Table {
  std::mutex mutex;
  std::map<std::pair<std::string, u32>, FrameId> ids;
  // By the literal's address: a line that is known is found without a string. Several addresses may
  // have one id.
  struct Hash {
    size_t operator()(const std::pair<const char*, u32>& k) const {
      return std::hash<const char*>()(k.first) * 31 + k.second;
    }
  };
  std::unordered_map<std::pair<const char*, u32>, FrameId, Hash> ids_by_address;
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
constinit thread_local FrameCacheLine frame_cache[kFrameCache] = {};

// Two lines that fall into one slot, by the chance of where literals lie, share a pair of slots; a
// third one costs a lock and a look-up, but nothing from the heap.
FrameId intern_frame_slow(Frame f) {
  const u32 slot = frame_slot(f);
  const FrameCacheLine& second = frame_cache[slot ^ 1];
  if (second.file == f.file && second.line == f.line) return second.id;
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  FrameId& id = t.ids_by_address[{f.file, f.line}];
  // Not a literal after all: other text may stand at the address now.
  if (id == 0 || std::strcmp(frame_of(id).file, f.file) != 0) {
    auto [it, fresh] = t.ids.try_emplace({f.file, f.line}, FrameId{0});
    if (fresh) it->second = t.add(Frame{it->first.first.c_str(), f.line});
    id = it->second;
  }
  frame_cache[slot ^ 1] = frame_cache[slot];
  frame_cache[slot] = {f.file, f.line, id};
  return id;
}
}  // namespace detail

Frame frame_of(FrameId id) {
  static Table& t = table();
  if (id == 0) return {};
  const Frame* chunk = t.chunks[id / kChunk].load(std::memory_order_acquire);
  return chunk ? chunk[id % kChunk] : Frame{};
}

bool is_users(Frame f) {
  if (!f.file) return false;
  constexpr std::string_view kRoot = "warptape/";
  std::string_view path = f.file;
  const size_t at = path.rfind(kRoot);
  if (at == path.npos) return true;
  path.remove_prefix(at + kRoot.size());
  for (const char* folder : {"autograd/", "core/", "data/", "nn/", "optim/"})
    if (path.starts_with(folder)) return false;
  return true;
}

std::string describe(Frame f) {
  if (!f.file) return "an unknown line";
  const char* slash = std::strrchr(f.file, '/');
  return std::string(slash ? slash + 1 : f.file) + ":" + std::to_string(f.line);
}

std::string describe_frame(FrameId id) { return describe(frame_of(id)); }

}  // namespace wt
