#include "warptape/core/frame.h"

#include <cstring>
#include <deque>
#include <map>
#include <mutex>

namespace wt {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::pair<std::string, u32>, FrameId> ids;
  std::deque<Frame> frames{Frame{}};  // index = id; 0 is unknown
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
  auto [it, fresh] = t.ids.try_emplace({f.file, f.line}, FrameId(t.frames.size()));
  if (fresh) t.frames.push_back(Frame{it->first.first.c_str(), f.line});
  const u64 hash = (reinterpret_cast<u64>(f.file) >> 4) ^ (f.line * 0x9E3779B1u >> 8);
  frame_cache[hash & 255] = {f.file, f.line, it->second};
  return it->second;
}
}  // namespace detail

Frame frame_of(FrameId id) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  return id < t.frames.size() ? t.frames[id] : Frame{};
}

std::string describe(Frame f) {
  if (!f.file) return "an unknown line";
  const char* slash = std::strrchr(f.file, '/');
  return std::string(slash ? slash + 1 : f.file) + ":" + std::to_string(f.line);
}

std::string describe_frame(FrameId id) { return describe(frame_of(id)); }

}  // namespace wt
