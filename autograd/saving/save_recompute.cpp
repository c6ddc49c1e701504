// SavePolicy::recompute: a slot that holds no tensor, but how to make it again from tensors that
// the operators before it save anyway. Of `linear(gelu(layer_norm(x)))` only x stays; the output of
// gelu is gelu(layer_norm(x)) once more, bit for bit: the same kernels on the same operands.
#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_saving.h"
#include "warptape/autograd/save_policy.h"

namespace wt::detail {
namespace {

// A chain longer than this is cut by a tensor that is kept: it bounds what a backward repeats.
constexpr int kMostOperators = 3;

struct Held {
  Tensor tensor;  // undefined: the slot was empty
  u32 version = 0;
};

// How the output of `node` is made: its operand 0 by another recipe or from a slot.
struct Recipe {
  Node* node;
  const OpSaving& saving;
  std::shared_ptr<const Recipe> operand{};
  std::vector<Held> slots{};
  int operators = 1;

  Recipe(Node* n, const OpSaving& s) : node(n), saving(s) { retain(n); }
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;
  ~Recipe() { release(node); }

  Tensor make(const Node* needed_by) const {
    std::vector<Tensor> saved;
    for (const Held& h : slots) {
      if (h.tensor.defined() && h.tensor.impl()->cell->version != h.version)
        throw InplaceError(overwritten(h, needed_by));
      saved.push_back(h.tensor);
    }
    const Tensor x = operand ? operand->make(needed_by) : saved[size_t(saving.operand_slot)];
    return saving.again(*node, x, saved.data());
  }

 private:
  std::string overwritten(const Held& h, const Node* needed_by) const {
    const VersionCell* cell = h.tensor.impl()->cell;
    return str("[", needed_by->info->name, ".backward] a saved tensor of ", describe(node),
               " was modified in place: it is at version ", cell->version, ", version ", h.version,
               " is needed to make its output again",
               cell->write_frame ? "\n  written at " + describe_frame(cell->write_frame) : "",
               "\n  needed by ", describe(needed_by),
               "\n  Try a clone() of it, or writing after backward()");
  }
};

struct RecipeSlot final : PackedSlot {
  std::shared_ptr<const Recipe> recipe;
  explicit RecipeSlot(std::shared_ptr<const Recipe> r) : recipe(std::move(r)) {}
  Tensor unpack(Backward& g) override { return recipe->make(g.node); }
};

std::shared_ptr<const Recipe> recipe_of(const Edge& e);

// Operand 0 of `n`: into r. False where nothing holds it or its own recipe.
bool find_operand(Node* n, Recipe& r) {
  const int at = r.saving.operand_slot;
  if (at < 0) {
    r.operand = recipe_of(n->edges[0]);
  } else if (const SavedSlot& s = n->slots[at]; s.kind == SlotKind::packed && s.packed) {
    const auto* form = dynamic_cast<const RecipeSlot*>(s.packed);
    if (form) r.operand = form->recipe;
  } else {
    return r.slots[size_t(at)].tensor.defined();
  }
  if (!r.operand) return false;
  r.operators = r.operand->operators + 1;
  return r.operators <= kMostOperators;
}

std::shared_ptr<const Recipe> recipe_of(const Edge& e) {
  Node* n = e.node;
  if (!n || !(n->flags & kUnderPolicy) || !(n->policy & kRepeats) || (n->flags & kFreedNode) ||
      e.output != 0)
    return nullptr;
  const OpSaving* saving = saving_of(n->info);
  if (!saving || !saving->again) return nullptr;
  auto r = std::make_shared<Recipe>(n, *saving);
  for (u32 k = 0; k < n->n_slots; ++k) {
    const SavedSlot& s = n->slots[k];
    if (s.edge == kSelf && s.output == e.output && s.kind != SlotKind::packed)
      return nullptr;  // it holds its output
    Held& held = r->slots.emplace_back();
    if ((s.kind != SlotKind::owned && s.kind != SlotKind::raw_output) || !s.tensor) continue;
    if (s.tensor->cell->version != s.version) return nullptr;
    held = {Tensor(leaf_of(s.tensor) ? retained(s.tensor) : alias_of(s.tensor)), s.version};
  }
  if (!find_operand(n, *r)) return nullptr;
  return r;
}

}  // namespace

std::unique_ptr<PackedSlot> recomputed(const Edge& e) {
  std::shared_ptr<const Recipe> r = recipe_of(e);
  if (!r) return nullptr;
  return std::make_unique<RecipeSlot>(std::move(r));
}

}  // namespace wt::detail
