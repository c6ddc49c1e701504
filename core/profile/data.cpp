#include "warptape/core/profile/data.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace wt::profiler {
namespace {

// A node's number is its thread's; a backward may run on another one.
using NodeKey = std::tuple<u32, u64, const OpInfo*>;
constexpr u32 kAnyThread = ~u32{0};

}  // namespace

void Profile::Data::tie() {
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.id < b.id; });
  parents.assign(events.size(), kNone);
  forwards.assign(events.size(), kNone);
  std::unordered_map<u32, u32> places;
  places.reserve(events.size());
  for (u32 i = 0; i < events.size(); ++i) places.emplace(events[i].id, i);
  std::map<NodeKey, u32> nodes;  // the newest operators that recorded them
  for (u32 i = 0; i < events.size(); ++i) {
    const Event& e = events[i];
    if (e.parent) {
      const auto at = places.find(e.parent);
      if (at != places.end()) parents[i] = at->second;
    }
    if (!e.node) continue;
    if (e.kind == Kind::op) {
      nodes[{e.thread, e.node, e.op}] = i;
      nodes[{kAnyThread, e.node, e.op}] = i;
    } else if (e.kind == Kind::backward) {
      auto at = nodes.find({e.thread, e.node, e.op});
      if (at == nodes.end()) at = nodes.find({kAnyThread, e.node, e.op});
      if (at != nodes.end()) forwards[i] = at->second;
    }
  }
}

}  // namespace wt::profiler
