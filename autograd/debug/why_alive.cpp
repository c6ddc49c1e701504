#include "warptape/autograd/why_alive.h"

#include <set>
#include <utility>

#include "warptape/autograd/live_graph.h"
#include "warptape/core/memory_limit.h"

namespace wt::memory {
namespace {

// What was found so far.
struct Findings {
  std::vector<std::string> lines{};
  u32 handles_found = 0;                 // references to the tensor itself that are explained
  std::set<const TensorImpl*> others{};  // tensors over the same bytes that are explained
};

std::string headline(const Tensor& t) {
  const Storage& s = *t.impl()->storage;
  std::string text = str(describe(t), ", ", bytes_text(s.bytes), " of ", category_name(s.category));
  const Node* n = t.impl()->node;
  const std::string module = module_path_of(s.mode_id);
  if (n && !n->is_leaf()) return text + ", made by " + wt::describe(n);
  if (s.owner) text += str(", made by ", module.empty() ? "" : module + ".", s.owner->name);
  return n ? text + ", a leaf" : text;
}

// "in a graph that ends in sum <- net.cpp:20 and 2 more"
std::string ends_text(const detail::LiveGraph& graph, Node* n) {
  const std::vector<Node*> ends = graph.ends_of(n);
  if (ends.size() == 1 && ends[0] == n) return ", the end of its graph";
  std::string text = ", in a graph that ends in " + wt::describe(ends.front());
  return ends.size() > 1 ? str(text, " and ", ends.size() - 1, " more") : text;
}

void look_at_graphs(const TensorImpl* p, Findings& f) {
  const detail::LiveGraph graph;
  std::set<std::pair<const void*, const TensorImpl*>> known;
  for (Node* n : graph.nodes()) {
    for (u32 i = 0; i < n->n_slots; ++i) {
      const SavedSlot& slot = n->slots[i];
      if (slot.kind == SlotKind::raw_output && slot.tensor == p)
        f.lines.push_back("read by the backward of " + wt::describe(n) + ", which made it");
      for (const detail::HeldTensor& h : detail::held_by(slot)) {
        if (h.tensor->storage != p->storage || !known.emplace(h.by, h.tensor).second) continue;
        if (h.tensor == p)
          ++f.handles_found;
        else
          f.others.insert(h.tensor);
        f.lines.push_back(
            (h.part.empty() ? "saved by " + wt::describe(n) + " for its backward" : h.part) +
            ends_text(graph, n));
      }
    }
  }
}

}  // namespace

std::string why_alive(const Tensor& t) {
  if (!t.defined()) throw UsageError("[why_alive] the tensor is undefined: it holds nothing");
  const TensorImpl* p = t.impl();
  Findings f;
  look_at_graphs(p, f);
  if (const int cached = detail::held_by_autocast(p->storage)) {
    f.lines.push_back("the cache of the autocast scope");
    if (leaf_of(p)) f.handles_found += u32(cached);
  }
  if (p->flags & kArena)
    f.lines.push_back("the arena of an optimizer, which keeps all of it as long as it lives");
  const u32 handles = p->refs.value.load(std::memory_order_relaxed) - f.handles_found;
  const u32 tensors = p->storage->refs.value.load(std::memory_order_relaxed);
  std::string text =
      headline(t) + str("\n  handles: ", handles,
                        " (variables, containers, modules; one of them was asked ", "about)");
  const i64 others = i64(tensors) - 1 - i64(f.others.size());
  if (others > 0 && !(p->flags & kArena))
    text += str("\n  other tensors over the same bytes (views, detach()): ", others);
  for (const std::string& line : f.lines) text += "\n  " + line;
  return text;
}

}  // namespace wt::memory
