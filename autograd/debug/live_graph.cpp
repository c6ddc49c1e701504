#include "warptape/autograd/live_graph.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "warptape/core/memory/out_of_memory.h"
#include "warptape/core/memory_limit.h"

namespace wt::detail {

LiveGraph::LiveGraph() : nodes_(live_nodes()) {
  for (Node* n : nodes_)
    for (u32 i = 0; i < n->n_edges; ++i)
      if (Node* from = n->edges[i].node; from && !from->is_leaf()) readers_[from].push_back(n);
  for (Node* n : nodes_)
    if (!readers_.contains(n)) ends_.push_back(n);
}

std::vector<Node*> LiveGraph::ends_of(Node* n) const {
  std::vector<Node*> ends, waiting{n};
  std::unordered_map<const Node*, bool> seen{{n, true}};
  while (!waiting.empty()) {
    Node* at = waiting.back();
    waiting.pop_back();
    const auto above = readers_.find(at);
    if (above == readers_.end()) {
      ends.push_back(at);
      continue;
    }
    for (Node* reader : above->second)
      if (seen.emplace(reader, true).second) waiting.push_back(reader);
  }
  return ends;
}

void LiveGraph::for_each_below(Node* end, std::unordered_map<const Node*, bool>& seen,
                               const std::function<void(Node*)>& f) const {
  if (!seen.emplace(end, true).second) return;
  std::vector<Node*> waiting{end};
  while (!waiting.empty()) {
    Node* n = waiting.back();
    waiting.pop_back();
    f(n);
    for (u32 i = 0; i < n->n_edges; ++i)
      if (Node* from = n->edges[i].node;
          from && !from->is_leaf() && seen.emplace(from, true).second)
        waiting.push_back(from);
  }
}

std::string largest_kept(Device d, i64 held) {
  struct Group {
    KeptOutput of;
    i64 bytes = 0, count = 0;
  };
  std::map<std::tuple<const OpInfo*, u32, FrameId, i64>, Group> groups;
  for (const KeptOutput& k : kept_outputs()) {
    i64 bytes = item_size(DType(k.info.key & 0xFF));
    for (int i = 0; i < k.info.ndim; ++i) bytes *= k.info.shape[i];
    if (!(device_of_key(k.info.key) == d) || bytes == 0) continue;
    Group& g = groups[{k.op, k.mode_id, k.frame, bytes}];
    g.of = k;
    g.bytes += bytes;
    ++g.count;
  }
  std::vector<Group> all;
  for (const auto& [place, g] : groups)
    if (g.bytes >= held / 100) all.push_back(g);
  std::stable_sort(all.begin(), all.end(),
                   [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
  if (all.size() > 10) all.resize(10);
  std::string text;
  for (const Group& g : all) {
    const std::string module = module_path_of(g.of.mode_id);
    text += str(text.empty() ? "\n  the largest that graphs keep for a backward:" : "", "\n    ",
                memory::bytes_text(g.bytes), g.count > 1 ? str(" in ", g.count, " tensors") : "",
                ": ", Shape(g.of.info.shape, g.of.info.ndim), " ",
                dtype_name(DType(g.of.info.key & 0xFF)), " of ", module.empty() ? "" : module + ".",
                g.of.op->name, " <- ", describe_frame(g.of.frame));
  }
  return text;
}

HeldTensors held_by(const SavedSlot& s) {
  HeldTensors held;
  if (!s.tensor) return held;
  if (s.kind == SlotKind::owned)
    held.push_back({s.tensor, "", &s});
  else if (s.kind == SlotKind::packed)
    add_held(s.packed, held);
  return held;
}

}  // namespace wt::detail
