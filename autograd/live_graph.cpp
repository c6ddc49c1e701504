#include "warptape/autograd/live_graph.h"

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
