// The graphs that are alive on this thread: which node reads which, and where each graph ends. What
// why_alive() and LeakWatch look at. Internal.
#pragma once
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "warptape/autograd/node.h"

namespace wt::detail {

// As it is when it is made; valid until the next operator or backward of this thread.
class LiveGraph {
 public:
  LiveGraph();
  const std::vector<Node*>& nodes() const { return nodes_; }
  // The nodes that no live node reads: a tensor of the user's keeps each.
  const std::vector<Node*>& ends() const { return ends_; }
  // The ends of all graphs that `n` is in.
  std::vector<Node*> ends_of(Node* n) const;
  // Every node below `end`, `end` included; those that `seen` has are left out.
  void for_each_below(Node* end, std::unordered_map<const Node*, bool>& seen,
                      const std::function<void(Node*)>& f) const;

 private:
  std::vector<Node*> nodes_, ends_;
  std::unordered_map<const Node*, std::vector<Node*>> readers_;
};

// A tensor that a slot keeps.
struct HeldTensor {
  const TensorImpl* tensor;
  std::string part;  // "an input of checkpoint <- net.cpp:9"; empty: the slot has it itself
  const void* by;    // what holds the reference: many slots share a checkpoint
};
using HeldTensors = std::vector<HeldTensor>;
HeldTensors held_by(const SavedSlot& s);
// checkpoint.cpp: what a packed form holds beside copies of its own.
void add_held(const PackedSlot* form, HeldTensors& out);
// autocast.cpp: how many tensors of this thread's cache lie over the storage, leaves and casts.
int held_by_autocast(const Storage* s);
// node.cpp: the nodes that this thread took from its pools and that nobody dropped, leaves
// excluded. Looks at all slabs of the process.
std::vector<Node*> live_nodes();
// An output that a node of this thread's keeps for a backward, as its own node describes it.
struct KeptOutput {
  const OpInfo* op;
  u32 mode_id;
  FrameId frame;
  OutputInfo info;
};
// node.cpp: each once, but for those that do not fit into a node (more than three operands, a
// second output) and those held in another form. Reads nodes and nothing that they point to:
// another thread may drop graphs of this one's meanwhile.
std::vector<KeptOutput> kept_outputs();

}  // namespace wt::detail
