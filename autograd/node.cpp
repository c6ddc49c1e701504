#include "warptape/autograd/node.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <unordered_set>

#include "warptape/autograd/live_graph.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/returned_memory.h"
#include "warptape/core/slices.h"

namespace wt {
namespace detail {

constinit thread_local ThreadNodes thread_nodes = {};

// A slab of nodes may outlive its thread: nodes travel with their tensors. Those that another
// thread drops wait in `returned` for any thread that needs some. A slab's address follows from any
// of its nodes'.
constexpr size_t kSlabBytes = 16 << 10, kStride = (sizeof(Node) + 63) / 64 * 64;
constexpr int kSlab = int(kSlabBytes / kStride);

namespace {

struct ReturnedNodes {
  std::mutex mutex;
  Node* list = nullptr;
  i64 count = 0;
  std::vector<char*> slabs;  // all of the process
};
ReturnedNodes& returned() {
  static ReturnedNodes* r = new ReturnedNodes;  // outlives static destructors
  return *r;
}

WT_COLD void return_node(Node* n) {
  ReturnedNodes& r = returned();
  const std::lock_guard lock(r.mutex);
  n->next = r.list;
  r.list = n;
  ++r.count;
}

void return_list(Node*& list) {
  while (Node* n = list) {
    list = n->next;
    return_node(n);
  }
}

// Some of the returned ones, now this thread's; null: none.
Node* take_returned() {
  ReturnedNodes& r = returned();
  const std::lock_guard lock(r.mutex);
  return take_some(r.list, r.count, kSlab);
}

// Takes whole slabs out of the list and gives them back to the system. The caller holds the mutex.
void trim_slabs(Node*& list, i64& count) {
  const auto slab_of = [](const Node* n) {
    return reinterpret_cast<u64>(n) & ~u64(kSlabBytes - 1);
  };
  std::vector<Node*> nodes;
  for (Node* n = list; n; n = n->next) nodes.push_back(n);
  std::sort(nodes.begin(), nodes.end());
  list = nullptr;
  count = 0;
  for (size_t i = 0; i < nodes.size();) {
    size_t end = i + 1;
    while (end < nodes.size() && slab_of(nodes[end]) == slab_of(nodes[i])) ++end;
    if (end - i == size_t(kSlab)) {
      std::erase(returned().slabs, reinterpret_cast<char*>(slab_of(nodes[i])));
      std::free(nodes[i]);  // the slab's first node
    } else {
      for (size_t k = i; k < end; ++k, ++count) {
        nodes[k]->next = list;
        list = nodes[k];
      }
    }
    i = end;
  }
}

}  // namespace

Node* node_slow() {
  register_thread();
  if (Node* n = take_returned()) {
    thread_nodes.free = n->next;
    return n;
  }
  auto* slab = static_cast<char*>(std::aligned_alloc(kSlabBytes, kSlabBytes));
  if (!slab) throw OutOfMemory("the host has no memory for the tape's nodes");
  {
    ReturnedNodes& r = returned();
    const std::lock_guard lock(r.mutex);
    try {
      r.slabs.push_back(slab);
    } catch (const std::bad_alloc&) {
      std::free(slab);
      throw OutOfMemory("the host has no memory for the tape's nodes");
    }
  }
  ThreadNodes& t = thread_nodes;
  for (int i = 0; i < kSlab; ++i) {
    auto* n = new (slab + size_t(i) * kStride) Node();
    n->home = home_of_new();
    n->next = t.free;
    t.free = n;
  }
  Node* const n = t.free;
  t.free = n->next;
  if (thread_memory.ended) return_list(t.free);  // nothing would look at this list again
  return n;
}

i64 pooled_nodes() {
  i64 count = 0;
  for (const Node* n = thread_nodes.free; n; n = n->next) ++count;
  return count;
}

void trim_nodes() {
  ReturnedNodes& r = returned();
  const std::lock_guard lock(r.mutex);
  i64 count = 0;
  trim_slabs(thread_nodes.free, count);
  trim_slabs(r.list, r.count);
}

// The caller holds the mutex.
static std::vector<Node*> live_nodes(ReturnedNodes& r) {
  std::unordered_set<const Node*> free;
  for (const Node* n = thread_nodes.free; n; n = n->next) free.insert(n);
  for (const Node* n = r.list; n; n = n->next) free.insert(n);
  std::vector<Node*> live;
  if (thread_impls.home == kLastHome) return live;  // other threads may go by it too
  for (char* slab : r.slabs) {
    for (int i = 0; i < kSlab; ++i) {
      auto* n = reinterpret_cast<Node*>(slab + size_t(i) * kStride);
      if (n->home == thread_impls.home && !free.contains(n)) live.push_back(n);
    }
  }
  return live;
}

std::vector<Node*> live_nodes() {
  ReturnedNodes& r = returned();
  const std::lock_guard lock(r.mutex);
  return live_nodes(r);
}

// The node that made what the slot keeps; null where it is not known without leaving `n`.
static const Node* maker_of(const Node* n, const SavedSlot& s) {
  if (!s.tensor || (s.kind != SlotKind::owned && s.kind != SlotKind::raw_output)) return nullptr;
  if (s.edge == kSelf) return s.output == 0 ? n : nullptr;
  if (s.edge >= n->n_edges || s.edge >= kInlineEdges || n->edges != n->inline_edges) return nullptr;
  return n->inline_edges[s.edge].output == 0 ? n->inline_edges[s.edge].node : nullptr;
}

__attribute__((no_sanitize("thread"))) std::vector<KeptOutput> kept_outputs() {
  ReturnedNodes& r = returned();
  const std::lock_guard lock(r.mutex);  // slabs stay
  const std::vector<Node*> live = live_nodes(r);
  const std::unordered_set<const Node*> known(live.begin(), live.end());
  std::unordered_set<const Node*> found;
  std::vector<KeptOutput> kept;
  for (const Node* n : live) {
    if (n->slots != n->inline_slots) continue;
    for (int i = 0; i < n->n_slots && i < kInlineSlots; ++i) {
      const Node* made = maker_of(n, n->inline_slots[i]);
      while (known.contains(made) && made->info->view && made->n_edges == 1)
        made = made->inline_edges[0].node;  // a view's bytes are another one's
      if (known.contains(made) && found.insert(made).second)
        kept.push_back({made->info, made->mode_id, made->frame, made->output});
    }
  }
  return kept;
}

void end_nodes() {
  return_list(thread_nodes.free);
  trim_nodes();
}

namespace {

void delete_leaf(Leaf* l) {
  if (l->grad) release(l->grad);
  if (l->pending) release(l->pending);
  if (l->half) release(l->half);
  for (const HookEntry& h : l->hooks)
    if (h.deleter) h.deleter(h.context);
  delete l;
}

WT_COLD void delete_spill(NodeSpill* spill) {
  for (const HookEntry& h : spill->hooks)
    if (h.deleter) h.deleter(h.context);
  delete spill;
}

// The count of `n` is zero. What dies below it is queued, never recursed into: a graph of 10^6
// nodes needs no stack.
void kill_node(Node* n) {
  ThreadNodes& t = thread_nodes;
  --thread_impls.live_nodes;
  if (n->is_leaf()) return delete_leaf(static_cast<Leaf*>(n));
  drop_slots(n);
  for (u32 i = 0; i < n->n_edges; ++i) {
    Node* e = n->edges[i].node;
    if (e && e->refs.dec()) {
      e->next = t.dying;
      t.dying = e;
    }
  }
  if (n->flags & kAttributeOwner) n->attribute_deleter(n->attributes);
  if (n->spill) delete_spill(n->spill);
  if (n->home != thread_impls.home) [[unlikely]] {
    register_thread();
    return return_node(n);
  }
  n->next = t.free;
  t.free = n;
}

}  // namespace

void drain(Node* n) {
  ThreadNodes& t = thread_nodes;
  // A walk has dissolved it, or nothing lies below: it takes nothing with it that could recurse.
  if (n->n_edges == 0 && !n->spill && !(n->flags & (kLeafNode | kAttributeOwner))) [[likely]]
    return kill_node(n);
  n->next = t.dying;
  t.dying = n;
  if (t.draining) return;
  t.draining = true;
  while (Node* d = t.dying) {
    t.dying = d->next;
    kill_node(d);
  }
  t.draining = false;
}

bool release_tensor_node(TensorImpl* p) {
  Node* n = p->node;
  if (p->flags & kSavedOutput) {
    // The user is done with it but the node that made it will read it: the node owns it now. It
    // loses its node (else a cycle) and is rebound on unpacking.
    p->flags &= u8(~kSavedOutput);
    bool kept = false;
    for (u32 i = 0; i < n->n_slots; ++i) {
      SavedSlot& s = n->slots[i];
      if (s.tensor != p || s.kind != SlotKind::raw_output) continue;
      if (kept) p->refs.inc();
      s.kind = SlotKind::owned;
      if (!kept) p->refs.init();
      kept = true;
    }
    p->node = nullptr;
    release(n);
    return kept;
  }
  p->node = nullptr;
  release(n);
  return false;
}

}  // namespace detail

PackedSlot::PackedSlot() = default;
PackedSlot::~PackedSlot() {
  if (value) release(value);
}

NodeSpill::~NodeSpill() {
  for (const RetainedGrad& r : retained)
    if (r.grad) release(r.grad);
}

// `p` is what the slot held, a form and no tensor.
WT_COLD static void drop_packed(SavedSlot& s, TensorImpl* p) {
  s.tensor = p;
  PackedSlot* form = s.packed;
  s.packed = nullptr;
  delete form;
}

void drop_slots(Node* n) {
  for (u32 i = 0; i < n->n_slots; ++i) {
    SavedSlot& s = n->slots[i];
    TensorImpl* p = s.tensor;
    s.tensor = nullptr;
    if (!p) continue;
    if (s.kind == SlotKind::raw_output)
      p->flags &= u8(~kSavedOutput);
    else if (s.kind == SlotKind::packed) [[unlikely]]
      drop_packed(s, p);
    else
      release(p);
  }
}

void forget_saved_output(TensorImpl* p) {
  for (u32 i = 0; i < p->node->n_slots; ++i) {
    SavedSlot& s = p->node->slots[i];
    if (s.tensor != p || s.kind != SlotKind::raw_output) continue;
    s.tensor = nullptr;
    s.kind = SlotKind::forgotten;
    s.version = p->cell->write_frame;
  }
  p->flags &= u8(~kSavedOutput);
}

Leaf* make_leaf(TensorImpl* p, Frame at) {
  auto* l = new Leaf;
  ++detail::thread_impls.live_nodes;
  l->refs.init();
  l->flags = kLeafNode;
  l->n_outputs = 1;
  l->n_edges = l->n_slots = 0;
  l->mode_id = mode.id;
  l->sequence = 0;
  static constexpr OpInfo kLeafInfo{.name = "leaf"};
  l->info = &kLeafInfo;
  l->backward = nullptr;
  l->frame = intern_frame(at);
  l->walk.store(0, std::memory_order_relaxed);
  l->task = 0;
  l->spill = nullptr;
  l->edges = l->inline_edges;
  l->slots = l->inline_slots;
  l->output.key = p->key;
  l->output.ndim = p->geometry.ndim;
  for (int i = 0; i < p->geometry.ndim; ++i) l->output.shape[i] = p->geometry.shape[i];
  p->node = l;
  return l;
}

std::string describe(const Node* n) {
  const std::string module = module_path_of(n->mode_id);
  return (module.empty() ? "" : module + ".") + n->info->name + " <- " + describe_frame(n->frame);
}

void detail::replace_data(TensorImpl* p, TensorImpl* from) {
  const u32 version = p->cell->version + 1;
  retain(from->storage);
  Storage* old = p->storage;
  p->storage = from->storage;
  p->data = from->data;
  p->cell = from->cell;
  p->cell->version = version;
  p->cell->write_frame = mode.frame;
  p->key = from->key;
  p->flags &= u8(~kArena);
  p->geometry = from->geometry;
  release(old);
  if (Leaf* l = leaf_of(p)) {
    l->output.key = p->key;
    if (l->grad) release(l->grad);
    l->grad = nullptr;
    l->in_arena = l->written = l->invalid = l->from_f16 = false;
    l->scaler = 0;
    if (l->half) release(l->half);
    l->half = nullptr;
  }
}

}  // namespace wt
