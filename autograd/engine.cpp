// The walk. Pass 1 marks what is reachable and counts uses; pass 2 visits by descending sequence
// number on the calling thread. Nothing recurses; a backward may start a walk of its own.
#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>

#include "warptape/autograd/engine.h"
#include "warptape/autograd/result_watch.h"
#include "warptape/autograd/slices.h"
#include "warptape/core/call_lines.h"
#include "warptape/core/profiler.h"
#include "warptape/core/slices.h"
#include "warptape/core/stream.h"
#include "warptape/core/thread_object.h"

namespace wt {
namespace {

thread_local Engine* current_engine = nullptr;
constinit std::atomic<u32> walk_counter{0};
// Marking is serialised: two threads can then never both believe that they own a node. Uncontended
// it costs 20 ns a walk.
std::mutex& marking() {
  static std::mutex m;
  return m;
}

// Engines are kept for their vectors' capacity: no heap allocation in a warm step.
struct EnginePool {
  std::vector<std::unique_ptr<Engine>> engines;
  size_t depth = 0;
};

bool lower(const Engine::Pending& a, const Engine::Pending& b) { return a.sequence < b.sequence; }

std::string shape_text(const Leaf* l) {
  return str("a leaf of shape ", Shape(l->output.shape, l->output.ndim));
}

WT_COLD void throw_walk_clash(const Node* n) {
  throw UsageError(str("[backward] ", describe(n),
                       ": another backward is walking this node; two live walks may not share a "
                       "leaf or a graph"));
}

WT_COLD void throw_mixed_scales(const Leaf* l) {
  const bool unscaled = l->scaler & kUnscaledBit;
  throw UsageError(
      str("[backward] the gradient of ", shape_text(l), " holds ",
          unscaled    ? "what unscale_() has divided already"
          : l->scaler ? "what a GradScaler has scaled"
                      : "what was never scaled",
          ", and this backward brings another scale: they do not add up\n  the leaf was made at ",
          describe_frame(l->frame), "\n  Try ",
          unscaled ? "unscale_() after the last backward() of the step"
                   : "scaler.scale(loss).backward() for every loss, or zero_grad() between"));
}

}  // namespace

// --- pass 1 ---

bool Engine::is_outer(u32 walk) const {
  for (const Engine* e = outer_; e; e = e->outer_)
    if (e->walk_ == walk) return true;
  return false;
}

WT_HOT void Engine::touch(Node* n) {
  const u32 mark = n->walk.load(std::memory_order_acquire);
  if (mark == walk_) {
    ++n->task;
    return;
  }
  if (mark != 0 && !is_outer(mark)) [[unlikely]]
    throw_walk_clash(n);
  if (n->is_leaf()) {
    auto* l = static_cast<Leaf*>(n);
    if (l->written && l->scaler != scaler_ && l->scaler != kAnyScaler && !capturing_) [[unlikely]]
      throw_mixed_scales(l);
    leaves_.push_back({l, mark, l->task, l->capture});
    retain(l);
    l->capture = ~0u;
  } else {
    if (!single_.node) {
      single_ = {n->sequence, n, mark, n->task};
    } else {
      heap_.push_back({n->sequence, n, mark, n->task});
      if (heap_.size() > 1) std::push_heap(heap_.begin(), heap_.end(), lower);
    }
  }
  n->walk.store(walk_, std::memory_order_relaxed);
  n->task = 1;
}

void Engine::mark(std::span<const Tensor> roots) {
  const std::lock_guard lock(marking());
  for (const Tensor& r : roots) touch(r.impl()->node);
  u32 count = 0;  // tasks_.size()
  while (single_.node || !heap_.empty()) {
    // Member by member: copying what was just written as a whole waits for its stores.
    Node* n = single_.node;
    u32 previous_walk = single_.previous_walk, previous_task = single_.previous_task;
    if (n && (heap_.empty() || single_.sequence >= heap_.front().sequence)) {
      single_.node = nullptr;
    } else {
      if (heap_.size() > 1) std::pop_heap(heap_.begin(), heap_.end(), lower);
      n = heap_.back().node;
      previous_walk = heap_.back().previous_walk;
      previous_task = heap_.back().previous_task;
      heap_.pop_back();
    }
    n->task = count++;
    u32 first_grad = 0;
    if (n->n_outputs > 1) [[unlikely]] {
      first_grad = u32(grads_.size());
      grads_.resize(grads_.size() + n->n_outputs, nullptr);
    }
    tasks_.emplace_back(n, first_grad, previous_walk, previous_task);
    if (n->flags & kFreedNode) [[unlikely]]
      throw_freed(n);
    for (u32 i = 0; i < n->n_edges; ++i)
      if (Node* d = n->edges[i].node) touch(d);
  }
  for (const Tensor& r : roots)
    if (Node* n = r.impl()->node; !n->is_leaf()) tasks_[n->task].root = true;
}

// Only nodes on a path to a captured tensor run.
void Engine::find_needed() {
  for (u32 k = 0; k < captures_.size(); ++k) {
    Node* n = captures_[k].node;
    if (!n || n->walk.load(std::memory_order_relaxed) != walk_) continue;
    u32& first = n->is_leaf() ? static_cast<Leaf*>(n)->capture : tasks_[n->task].capture;
    if (first == ~0u) first = k;
  }
  for (size_t i = tasks_.size(); i-- > 0;) {
    Task& t = tasks_[i];
    t.needed = t.capture != ~0u;
    for (u32 k = 0; k < t.node->n_edges && !t.needed; ++k)
      if (const Node* d = t.node->edges[k].node)
        t.needed =
            d->is_leaf() ? static_cast<const Leaf*>(d)->capture != ~0u : tasks_[d->task].needed;
  }
}

void Engine::seed(std::span<const Tensor> roots, std::span<Tensor> seeds) {
  for (size_t i = 0; i < roots.size(); ++i) {
    const TensorImpl* r = roots[i].impl();
    if (r->node->is_leaf()) {
      leaf_arrived(static_cast<Leaf*>(r->node), std::move(seeds[i]));
      continue;
    }
    TensorImpl*& have = gradient(tasks_[r->node->task], r->output_index);
    if (have)
      detail::accumulate(have, std::move(seeds[i]));
    else
      have = seeds[i].release_impl();
  }
  for (const Tensor& r : roots)
    if (Node* n = r.impl()->node; n->is_leaf() && --n->task == 0) leaf_done(static_cast<Leaf*>(n));
}

// --- pass 2 ---

void Engine::capture(u32 first, Node* n, u32 output, const Tensor& t) {
  for (u32 k = first; k < captures_.size(); ++k) {
    if (captures_[k].node != n || captures_[k].output != output) continue;
    Tensor& r = *captures_[k].result;
    if (!r.defined()) {
      r = t;
    } else {
      TensorImpl* have = r.release_impl();
      detail::accumulate(have, t);
      r = Tensor(have);
    }
  }
}

static void accumulate_leaf(Leaf* l, Tensor t) {
  if (l->invalid)
    throw NumericError("the gradient is invalid after a backward that threw; call zero_grad()");
  const CategoryScope scope(Category::gradient);
  if (!l->grad && l->provide) l->provide(l, l->ready_context);
  if (l->grad && l->written) {
    detail::add_into(l->grad, t.impl());
  } else if (l->grad) {
    detail::copy_into(l->grad, t.impl());
  } else {
    TensorImpl* p = t.impl();
    if (detail::is_sole(p)) {
      l->grad = t.release_impl();
    } else {
      l->grad = new_like(p);
      detail::copy_into(l->grad, p);
    }
  }
  l->written = true;
}

static void take_in(Leaf* l, Tensor t) {
  if (!l->hooks.empty()) {
    if (!l->pending)
      l->pending = t.release_impl();
    else
      detail::accumulate(l->pending, std::move(t));
  } else {
    accumulate_leaf(l, std::move(t));
  }
}

// Captured, recorded, or of slices.
static void take_in_indirectly(Engine& e, Leaf* l, Tensor t) {
  const bool sliced = mode.slow & kSlowSliced;
  if (sliced) detail::sum_closed_slices(t, nullptr);
  if (e.capturing_) {
    if (l->capture != ~0u) e.capture(l->capture, l, 0, t);
    return;
  }
  if (!sliced) return take_in(l, std::move(t));
  if (detail::slices_of(t.impl()))
    throw UsageError(str("[backward] inside of vmap() each slice has a gradient of its own, and ",
                         shape_text(l), " has room for one\n  Try grad() or grads()"));
  const detail::SliceScope plain({});
  take_in(l, std::move(t));
}

void Engine::leaf_arrived(Leaf* l, Tensor t) {
  if (indirect_) [[unlikely]]
    return take_in_indirectly(*this, l, std::move(t));
  take_in(l, std::move(t));
}

// The last use has arrived: hooks see the walk's sum, then it is accumulated, then buckets hear.
void Engine::leaf_done(Leaf* l) {
  if (capturing_) return;
  if (l->pending) {
    Tensor g(l->pending);
    l->pending = nullptr;
    for (size_t i = 0; i < l->hooks.size(); ++i) {
      Tensor r = l->hooks[i].call(l->hooks[i].context, g);
      if (r.defined()) g = std::move(r);
    }
    accumulate_leaf(l, std::move(g));
  }
  if (l->ready) l->ready(l, l->ready_context);
}

// A user asked for the gradient of an output that is no leaf: a tensor of its own, after all hooks.
static void retain_gradient(RetainedGrad& r, const TensorImpl* g) {
  const CategoryScope scope(Category::gradient);
  if (r.grad) return detail::add_into(r.grad, g);
  const detail::SliceAxes* axes = detail::slices_of(g);
  const detail::SliceScope as_g(axes ? *axes : detail::SliceAxes{});
  Tensor own(new_like(g));
  detail::copy_into(own.impl(), g);
  r.grad = own.release_impl();
}

// Of a node's gradients and saved tensors.
static detail::SliceAxes slices_around(const Node* n, TensorImpl* const* grads) {
  detail::SliceAxes axes;
  for (u32 k = 0; k < n->n_outputs; ++k)
    if (grads[k])
      if (const detail::SliceAxes* a = detail::slices_of(grads[k])) axes.merge(*a);
  for (u32 k = 0; k < n->n_slots; ++k) {
    const SavedSlot& s = n->slots[k];
    if (!s.tensor) continue;
    const detail::SliceAxes* a =
        s.kind == SlotKind::packed ? s.packed->slices.get() : detail::slices_of(s.tensor);
    if (a) axes.merge(*a);
  }
  return axes;
}

// What has reached an edge's target in this walk; null: nothing.
static const TensorImpl* arrived(Engine& e, const Edge& edge) {
  if (!edge.node->is_leaf()) return e.gradient(e.tasks_[edge.node->task], edge.output);
  const auto* l = static_cast<const Leaf*>(edge.node);
  if (!e.capturing_) return l->pending ? l->pending : l->written ? l->grad : nullptr;
  for (size_t k = l->capture; k < e.captures_.size(); ++k)
    if (e.captures_[k].node == l) return e.captures_[k].result->impl();
  return nullptr;
}

// For who records gradients: a bit for each input of n that has some before n's backward.
static u64 gradients_before(Engine& e, const Node* n) {
  u64 some = 0;
  if (!detail::result_watch) return some;
  for (u32 i = 0; i < n->n_edges && i < 64; ++i)
    if (n->edges[i].node && arrived(e, n->edges[i])) some |= u64{1} << i;
  return some;
}

// The gradients that n's backward has handed on.
static void show_gradients(Engine& e, const Node* n, u64 before) {
  detail::ResultWatch* const w = detail::result_watch;
  if (!w) return;
  for (u32 i = 0; i < n->n_edges; ++i) {
    const Edge& edge = n->edges[i];
    if (!edge.node) continue;
    bool again = false;  // x * x
    for (u32 k = 0; k < i; ++k)
      again |= n->edges[k].node == edge.node && n->edges[k].output == edge.output;
    if (again) continue;
    if (const TensorImpl* g = arrived(e, edge))
      w->gradient(n, int(i), g, i < 64 && before >> i & 1);
  }
}

template <bool Observed>
WT_HOT void Engine::run_node(Task& t) {
  Node* n = t.node;
  if constexpr (Observed)
    if (mode.slow & kSlowSliced)
      for (u32 k = 0; k < n->n_outputs; ++k)
        if (TensorImpl*& g = gradient(t, k))
          detail::sum_closed_slices(reinterpret_cast<Tensor&>(g), n);
  if (n->spill) [[unlikely]] {
    for (const HookEntry& h : n->spill->hooks) {
      TensorImpl*& g = gradient(t, h.output);
      if (!g) continue;
      Tensor r = h.call(h.context, reinterpret_cast<const Tensor&>(g));
      if (r.defined()) {
        release(g);
        g = r.release_impl();
      }
    }
    if (!capturing_)
      for (RetainedGrad& r : n->spill->retained)
        if (const TensorImpl* g = gradient(t, r.output)) retain_gradient(r, g);
  }
  if (t.capture != ~0u) [[unlikely]]
    for (u32 k = 0; k < n->n_outputs; ++k)
      if (TensorImpl* g = gradient(t, k))
        capture(t.capture, n, k, reinterpret_cast<const Tensor&>(g));
  mode.frame = n->frame;
  if (n->mode_id != mode.id) [[unlikely]]
    restore_mode(n->mode_id);
  std::optional<profiler::RangeScope> range;
  if (Observed && (process_slow.load(std::memory_order_relaxed) & kSlowObserved))
    range.emplace(profiler::Range{.kind = profiler::Kind::backward,
                                  .name = n->info->name,
                                  .variant = nullptr,
                                  .op = n->info,
                                  .frame = n->frame,
                                  .mode_id = n->mode_id,
                                  .device = device_of_key(n->output.key),
                                  .stream = mode.native_stream,
                                  .node = n->sequence});
  std::optional<detail::SliceScope> slices;
  if (Observed && (mode.slow & kSlowSliced)) slices.emplace(slices_around(n, &gradient(t, 0)));
  u64 before = 0;
  if constexpr (Observed) before = gradients_before(*this, n);
  Backward b(*this, n, &gradient(t, 0), capturing_);
  n->backward(b);
  if constexpr (Observed) show_gradients(*this, n, before);
}

// Frees what only this walk still needs. A node whose sole owner is the walk hands its edges to the
// nodes below without touching their counts.
WT_HOT void Engine::release_graph(Task& t) {
  Node* n = t.node;
  const bool dissolve =
      (t.owned && n->refs.sole()) || (t.root && !(outer_ && is_outer(t.previous_walk)));
  drop_slots(n);
  if (n->n_slots || dissolve) n->flags |= kFreedNode;
  if (dissolve) {
    for (u32 k = 0; k < n->n_edges; ++k) {
      Node* d = n->edges[k].node;
      if (!d) continue;
      n->edges[k].node = nullptr;
      if (!d->is_leaf() && !tasks_[d->task].owned)
        tasks_[d->task].owned = true;
      else
        release(d);
    }
    n->n_edges = 0;
  }
  const bool owned = t.owned;
  t.node = nullptr;
  if (owned) release(n);
}

template <bool Observed>
WT_HOT void Engine::visit(Task& t) {
  Node* n = t.node;
  if (n->n_outputs == 1) [[likely]] {
    if (t.grad) {
      if (t.needed) run_node<Observed>(t);
      if (t.grad) {
        release(t.grad);
        t.grad = nullptr;
      }
    }
  } else {
    visit_many<Observed>(t);
  }
  n->walk.store(t.previous_walk, std::memory_order_relaxed);
  n->task = t.previous_task;
  for (u32 k = 0; k < n->n_edges; ++k) {
    Node* d = n->edges[k].node;
    if (d && d->is_leaf() && --d->task == 0) leaf_done(static_cast<Leaf*>(d));
  }
  if (retain_)
    t.node = nullptr;
  else
    release_graph(t);
}

// A node with several outputs: runs if any of them got a gradient.
template <bool Observed>
void Engine::visit_many(Task& t) {
  bool any = false;
  for (u32 k = 0; k < t.node->n_outputs; ++k) any |= grads_[t.first_grad + k] != nullptr;
  if (any && t.needed) run_node<Observed>(t);
  for (u32 k = 0; k < t.node->n_outputs; ++k) {
    TensorImpl*& g = grads_[t.first_grad + k];
    if (g) release(g);
    g = nullptr;
  }
}

WT_COLD void Engine::visit_observed() {
  for (Task& t : tasks_) visit<true>(t);
}

// On every way out: marks as before, nothing held. After a throw the touched gradients are invalid.
void Engine::finish(bool ok) noexcept {
  if (!ok) {
    const auto unmark = [](const Pending& p) {
      p.node->task = p.previous_task;
      p.node->walk.store(p.previous_walk, std::memory_order_release);
    };
    if (single_.node) unmark(single_);
    for (const Pending& p : heap_) unmark(p);
    for (Task& t : tasks_) {
      if (!t.node) continue;
      t.node->task = t.previous_task;
      t.node->walk.store(t.previous_walk, std::memory_order_release);
    }
    for (Task& t : tasks_)
      if (t.node && t.owned) release(t.node);
    for (TensorImpl*& g : grads_)
      if (g) release(g);
    for (Task& t : tasks_)
      if (t.grad) release(t.grad);
    for (LeafUse& u : leaves_) {
      if (u.leaf->pending) {
        release(u.leaf->pending);
        u.leaf->pending = nullptr;
      }
      if (marked_ && !capturing_ && u.leaf->written) u.leaf->invalid = true;
    }
  }
  for (LeafUse& u : leaves_) {
    if (marked_ && !capturing_) {
      u.leaf->scaler = scaler_;
      ++u.leaf->backwards;
    }
    u.leaf->task = u.previous_task;
    u.leaf->capture = u.previous_capture;
    u.leaf->walk.store(u.previous_walk, std::memory_order_release);  // another thread may go on
    release(u.leaf);
  }
  single_ = {};
  tasks_.clear();
  grads_.clear();
  heap_.clear();
  leaves_.clear();
  captures_.clear();
}

void walk(std::span<const Tensor> roots, std::span<Tensor> seeds, WalkOptions options,
          std::vector<Engine::Capture>* captures) {
  EnginePool& pool = thread_object<EnginePool>();
  if (pool.depth == pool.engines.size()) pool.engines.push_back(std::make_unique<Engine>());
  Engine& e = *pool.engines[pool.depth++];
  e.walk_ = walk_counter.fetch_add(1, std::memory_order_relaxed) + 1;
  e.create_graph_ = options.create_graph;
  e.retain_ = options.retain || options.create_graph;
  e.scaler_ = options.scaler;
  e.capturing_ = captures != nullptr;
  e.indirect_ = options.create_graph || e.capturing_ || (mode.slow & kSlowSliced);
  if (captures) e.captures_.swap(*captures);
  e.outer_ = current_engine;
  current_engine = &e;
  struct Exit {
    Engine& e;
    EnginePool& pool;
    const Mode before = mode;
    const ModuleCall* const call_before = module_call;
    bool ok = false;
    ~Exit() {
      e.finish(ok);
      current_engine = e.outer_;
      --pool.depth;
      const u64 sequence = mode.sequence;
      StreamState* const last = mode.stream;
      mode = before;
      module_call = call_before;
      mode.sequence = sequence;
      if (last != mode.stream) detail::follow_stream_quietly(last, mode.stream);
    }
  } exit{e, pool};
  e.marked_ = false;
  e.mark(roots);
  e.marked_ = true;
  if (e.capturing_) e.find_needed();
  mode.grad = options.create_graph;
  module_call = nullptr;  // nodes know their lines
  mode.slow &= ~u32(kSlowAutocast | kSlowSaving);
  e.seed(roots, seeds);
  if (process_slow.load(std::memory_order_relaxed) & (kSlowObserved | kSlowSlices)) [[unlikely]]
    e.visit_observed();
  else
    for (Task& t : e.tasks_) e.visit<false>(t);  // (a nested walk has vectors of its own)
  exit.ok = true;
}

}  // namespace wt
