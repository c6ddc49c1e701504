// A recorded operator, or a leaf's gradient state: docs/architecture.md has the picture.
//
// A node is owned by its outputs (TensorImpl::node) and by its consumers' edges, never by a list,
// and owns no output: a graph that nobody differentiates dies with its tensors. "The tape" is the
// order of the sequence numbers.
#pragma once
#include <new>
#include <type_traits>
#include <vector>

#include "warptape/autograd/grads.h"
#include "warptape/core/frame.h"
#include "warptape/core/op_info.h"
#include "warptape/core/owned.h"
#include "warptape/core/tensor.h"

namespace wt {

struct Backward;
namespace detail {
struct SliceAxes;
}
using BackwardFn = void (*)(Backward&);

// Where a gradient goes: output `output` of `node` (0 for leaves). Null node: nobody wants it.
struct Edge {
  Node* node;
  u32 output;
};

// How a slot holds what a backward will read.
enum class SlotKind : u8 {
  empty,       // not saved (nobody needs it)
  owned,       // an own handle: a leaf, or an alias of an intermediate, without the producer's node
  raw_output,  // the node's own output while the user still holds it: a raw pointer, no cycle
  forgotten,   // the output was overwritten in place: reading it is an error
  packed,      // by a save policy: `packed` gives the tensor when it is needed
};
constexpr u8 kNoEdge = 255;  // the slot's tensor had no producer
constexpr u8 kSelf = 254;    // the slot's tensor is this node's output

// What a relu's backward asks of its output: a bit an element, in the output's order of memory
// (kernels/bit_mask.h).
struct SignBits {
  Tensor bits;
  Geometry order;
};

// A tensor held in another form (SavePolicy); autograd/saving/save_policy.cpp has the forms.
struct PackedSlot {
  TensorImpl* value = nullptr;            // while its node's backward runs
  Owned<const detail::SliceAxes> slices;  // of the tensor under vmap(); null: none
  PackedSlot();
  PackedSlot(const PackedSlot&) = delete;
  PackedSlot& operator=(const PackedSlot&) = delete;
  virtual ~PackedSlot();
  // The tensor as it was saved, without a node. Nothing is recorded meanwhile.
  virtual Tensor unpack(Backward& g) = 0;
  // For backward functions that need no tensor for these; null: there are none.
  virtual const SignBits* sign_bits() const { return nullptr; }
  // Another slot of the same form is in memory::saved_by_rule() already.
  virtual bool counted() const { return false; }
};

struct SavedSlot {
  union {
    TensorImpl* tensor;
    PackedSlot* packed;
  };
  u32 version;  // of the tensor's root when it was saved
  SlotKind kind;
  u8 edge;    // the edge whose node made the tensor: unpacking rebinds to it
  u8 output;  // for kSelf: which output
};

// What is known of an output without holding it.
struct OutputInfo {
  u32 key;  // dtype and device
  u8 ndim;
  i64 shape[kMaxDims];
};

enum NodeFlags : u8 {
  kLeafNode = 1,
  kFreedNode = 2,       // its slots were released by a backward
  kSpilled = 4,         // edges, slots or outputs live in `spill`
  kAttributeOwner = 8,  // `attribute_deleter` must run
  kUnderPolicy = 16     // recorded under a save policy: `policy` and `made` are known
};
// Of a node's output 0; apart from the flags because a reader on another thread may set them.
enum NodePolicy : u8 {
  kRepeats = 1,  // SavePolicy::recompute may make it again: it was not written since
  kCounted = 2   // in memory::saved_by_rule(), once however many slots hold it no more
};

constexpr int kInlineEdges = 3, kInlineSlots = 3, kAttributeBytes = 48;

struct HookEntry {
  u64 id;
  u32 output;
  TensorHook call;
  void* context;
  void (*deleter)(void*);
};

// The gradient of an output whose user asked for it (Tensor::retain_grad).
struct RetainedGrad {
  u32 output;
  TensorImpl* grad;  // null: none yet
};

// Room for what does not fit inline: many edges (cat), many outputs, hooks.
struct NodeSpill {
  std::vector<Edge> edges;
  std::vector<SavedSlot> slots;
  std::vector<OutputInfo> outputs;
  std::vector<HookEntry> hooks;
  std::vector<RetainedGrad> retained;
  ~NodeSpill();
};

struct Node {
  RefCount refs;
  u8 flags;
  u8 n_outputs;
  u16 n_edges;
  u16 n_slots;
  u8 home;    // as Storage::home
  u8 policy;  // NodePolicy bits
  u32 mode_id;
  u64 sequence;
  const OpInfo* info;
  BackwardFn backward;
  FrameId frame;
  std::atomic<u32> walk;  // the backward walk that claims this node; 0: none
  u32 task;               // its place in that walk (leaves: uses that are still to come)
  u32 made;               // the version of output 0 when it was made
  NodeSpill* spill;
  Node* next;  // free list, and the list of nodes about to die
  Edge* edges;
  SavedSlot* slots;
  OutputInfo output;  // of output 0
  Edge inline_edges[kInlineEdges];
  SavedSlot inline_slots[kInlineSlots];
  alignas(8) unsigned char attributes[kAttributeBytes];
  void (*attribute_deleter)(void*);

  const OutputInfo& output_info(u32 i) const { return i == 0 ? output : spill->outputs[i - 1]; }
  bool is_leaf() const { return (flags & kLeafNode) != 0; }

  // The operator's plain attributes (axis, scale, call index): small ones inline.
  template <class A>
  A& attribute() {
    if constexpr (fits<A>())
      return *std::launder(reinterpret_cast<A*>(attributes));
    else
      return **std::launder(reinterpret_cast<A**>(attributes));
  }
  template <class A>
  void set_attribute(A a) {
    if constexpr (fits<A>()) {
      new (attributes) A(std::move(a));
    } else {
      new (attributes) A*(new A(std::move(a)));
      attribute_deleter = [](void* p) { delete *static_cast<A**>(p); };
      flags |= kAttributeOwner;
    }
  }

 private:
  template <class A>
  static constexpr bool fits() {
    return sizeof(A) <= kAttributeBytes && std::is_trivially_destructible_v<A> && alignof(A) <= 8;
  }
};

// The gradient state of a leaf: a node without backward, owned by its tensor and by consumers.
struct Leaf : Node {
  TensorImpl* grad = nullptr;     // the accumulated gradient, or an arena's slot
  TensorImpl* pending = nullptr;  // with tensor hooks: this walk's sum before accumulation
  bool in_arena = false;          // `grad` is an arena slot: never replaced
  bool written = false;           // a backward wrote it since zero_grad()
  bool invalid = false;           // a backward threw half way: zero_grad() first
  u32 capture = ~0u;              // grads(): which result this leaf is
  u64 holder = 0;                 // the optimizer that laid it out; 0: none
  // Loss scaling. The GradScaler whose scale is in `grad`, with kUnscaledBit once it was divided
  // out; 0: none was.
  u32 scaler = 0;
  bool from_f16 = false;  // part of `grad` came through f16: without scaling it lost small ones
  u32 backwards = 0;      // walks that have reached the leaf, ever
  TensorImpl* half = nullptr;  // a 16-bit copy that an optimizer keeps; valid at half_version
  u32 half_version = 0;
  void (*ready)(Leaf*, void*) = nullptr;  // fires when the last use of a walk has arrived
  void* ready_context = nullptr;
  std::vector<HookEntry> hooks;
  // Makes `grad`, zeroed, where a backward is about to write it and there is none: of gradients
  // that have memory within a backward alone. Its context is ready_context.
  void (*provide)(Leaf*, void*) = nullptr;
};

// Leaf::scaler: gradients that unscale_() has divided, and zeros, which fit any scale.
inline constexpr u32 kUnscaledBit = 1u << 31, kAnyScaler = ~0u;

namespace detail {
struct ThreadNodes {
  Node* free;
  Node* dying;
  bool draining;
};
extern constinit thread_local ThreadNodes thread_nodes;
Node* node_slow();
void drain(Node* n);
}  // namespace detail

WT_HOT void retain(Node* n) { n->refs.inc(); }
WT_HOT void release(Node* n) {
  if (n->refs.dec()) detail::drain(n);
}

WT_HOT Node* new_node() {
  detail::ThreadNodes& t = detail::thread_nodes;
  Node* n = t.free;
  if (n) [[likely]]
    t.free = n->next;
  else
    n = detail::node_slow();
  ++detail::thread_impls.live_nodes;
  n->refs.init();
  n->flags = 0;
  n->n_outputs = 1;
  n->n_edges = n->n_slots = 0;
  n->walk.store(0, std::memory_order_relaxed);
  n->spill = nullptr;
  n->edges = n->inline_edges;
  n->slots = n->inline_slots;
  return n;
}

// Leaf state of a tensor that requires grad and was not made by an operator; null otherwise.
WT_HOT Leaf* leaf_of(const TensorImpl* p) {
  return p->node && p->node->is_leaf() ? static_cast<Leaf*>(p->node) : nullptr;
}
// Makes the state (grad wanted). `p->node` must be null.
Leaf* make_leaf(TensorImpl* p, Frame at);
// In place over an output that its producer saved: the slot can never be read again; if it kept the
// tensor it would be a cycle through the tensor's new node.
void forget_saved_output(TensorImpl* p);
void drop_slots(Node* n);
namespace detail {
// Puts the slots of a node that was just recorded into the form that the mode's policy asks for.
// What cannot be put, for want of memory too, is kept. `out`: its output 0.
void pack_slots(Node* n, const TensorImpl* out) noexcept;
// While a checkpointed function runs: the tensor was made outside of it; a recomputation must leave
// it alone, because the forward has written it already.
bool made_outside(const TensorImpl* p);
bool leaves_alone(const TensorImpl* p);
// `p` becomes a tensor over `from`'s storage (another device or dtype, same shape) and keeps its
// identity: Module::to. Bumps the version, so that a pending backward throws; the gradient is
// dropped.
void replace_data(TensorImpl* p, TensorImpl* from);
}  // namespace detail
// "conv2.mul <- net.cpp:57"
std::string describe(const Node* n);

}  // namespace wt
