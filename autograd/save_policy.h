// The forms in which a slot can hold a tensor (SavePolicy). Internal.
#pragma once
#include <memory>

#include "warptape/autograd/node.h"
#include "warptape/autograd/saved_by_rule.h"

namespace wt::detail {

// Puts `form` into the slot, which gives up its tensor. Never throws.
void replace_by(Node* n, SavedSlot& slot, std::unique_ptr<PackedSlot> form);
// The same, counted as spared by `rule`.
void pack(Node* n, SavedSlot& slot, std::unique_ptr<PackedSlot> form, memory::SavingRule rule);
// The slot holds a tensor that a policy may put into another form: no leaf.
bool can_pack(const SavedSlot& slot);
// checkpoint.cpp: a slot of a node recorded by a checkpointed function.
void recompute_slot(Node* n, SavedSlot& slot);

// SavePolicy::recompute without a checkpoint: operators save what `again` asks of them.
inline bool keeps_recipes() {
  return (mode.slow & kSlowSaving) != 0 && mode.save == SavePolicy::recompute &&
         !mode.recomputation;
}
// save_recompute.cpp: a form that makes the output that `e` leads to again; null where it cannot be
// had from what is saved.
std::unique_ptr<PackedSlot> recomputed(const Edge& e);
// save_invert.cpp: a form that tells operand `x` of `op` from the output `y`, which will have that
// version; null where `op` has no inverse or the two lie differently in memory. x still has its
// values.
std::unique_ptr<PackedSlot> inverted(const OpInfo& op, const TensorImpl* x, const TensorImpl* y,
                                     u32 version);
// For operators in place, before they write: the form, by the mode's policy, of the operand that
// slot 0 would keep a copy of; null: keep the copy.
std::unique_ptr<PackedSlot> form_of_overwritten(const OpInfo& op, const TensorImpl* x);
memory::SavingRule rule_of_overwritten();
// An operator reads `p` now. Where it was written since its node made it, nothing that comes after
// can be made from that node again.
inline void check_recipe(const TensorImpl* p) {
  Node* n = p->node;
  if (n && n->flags & kUnderPolicy && p->output_index == 0 && n->made != p->cell->version)
    n->policy &= u8(~kRepeats);
}

}  // namespace wt::detail
