// The engine: one walk, its state and what its parts share. Internal to autograd/engine.cpp (the
// walk), backward.cpp (what a backward function sees) and grads.cpp (how users start one).
#pragma once
#include <span>
#include <vector>

#include "warptape/autograd/backward.h"

namespace wt {

// One node of a walk.
struct Task {
  Task(Node* n, u32 first, u32 outer_walk, u32 outer_task)
      : node(n), first_grad(first), previous_walk(outer_walk), previous_task(outer_task) {}

  Node* node;
  TensorImpl* grad = nullptr;        // of its one output
  u32 first_grad;                    // several outputs: grads_[first_grad ...]
  u32 previous_walk, previous_task;  // the marks of an outer walk, put back on the way out
  u32 capture = ~0u;                 // index into captures_, ~0u: none
  bool owned = false;                // the walk holds a reference (its consumer was freed)
  bool needed = true;                // on a path to something asked for
  bool root = false;
};

class Engine {
 public:
  struct Pending {
    u64 sequence;
    Node* node;
    u32 previous_walk, previous_task;
  };
  struct LeafUse {
    Leaf* leaf;
    u32 previous_walk, previous_task, previous_capture;
  };
  struct Capture {
    Node* node;
    u32 output;
    Tensor* result;
  };

  std::vector<Task> tasks_;
  std::vector<TensorImpl*> grads_;  // of nodes with several outputs
  std::vector<Pending> heap_;
  std::vector<LeafUse> leaves_;
  std::vector<Capture> captures_;
  Pending single_{};  // one pending node is kept out of the heap: a chain never touches it
  u32 walk_ = 0;
  u32 scaler_ = 0;  // whose scale the seeds carry (Leaf::scaler)
  bool create_graph_ = false, retain_ = false, capturing_ = false;
  // Gradients do not go straight to leaves: they are recorded or captured, or have slices (vmap).
  bool indirect_ = false;
  bool marked_ = false;  // pass 1 went through: gradients may have been touched
  Engine* outer_ = nullptr;

  void touch(Node* n);
  void mark(std::span<const Tensor> roots);
  void find_needed();
  void seed(std::span<const Tensor> roots, std::span<Tensor> seeds);
  // Observed: profiler observers hear of each node, and gradients with slices (core/slices.h) are
  // looked after; decided once a walk.
  template <bool Observed>
  void visit(Task& t);
  template <bool Observed>
  void visit_many(Task& t);
  template <bool Observed>
  void run_node(Task& t);
  void visit_observed();
  TensorImpl*& gradient(Task& t, u32 output) {
    return t.node->n_outputs == 1 ? t.grad : grads_[t.first_grad + output];
  }
  void deliver(const Edge& e, Tensor&& t);
  void leaf_arrived(Leaf* l, Tensor t);
  void leaf_done(Leaf* l);
  void release_graph(Task& t);
  void capture(u32 first, Node* n, u32 output, const Tensor& t);
  bool is_outer(u32 walk) const;
  void finish(bool ok) noexcept;
};

// Adds a gradient that is known to fit to what edge e's target has.
WT_HOT void Engine::deliver(const Edge& e, Tensor&& t) {
  if (e.node->is_leaf()) return leaf_arrived(static_cast<Leaf*>(e.node), std::move(t));
  TensorImpl*& have = gradient(tasks_[e.node->task], e.output);
  if (!have) [[likely]]
    have = t.release_impl();
  else
    detail::accumulate(have, std::move(t));
}

struct WalkOptions {
  bool create_graph = false, retain = false;
  u32 scaler = 0;
};
// Runs one walk; `captures` null: gradients go to the leaves. Seeds are used up.
void walk(std::span<const Tensor> roots, std::span<Tensor> seeds, WalkOptions options,
          std::vector<Engine::Capture>* captures);

[[noreturn]] WT_COLD void throw_freed(const Node* n);

}  // namespace wt
