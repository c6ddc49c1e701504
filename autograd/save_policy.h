// The forms in which a slot can hold a tensor (SavePolicy). Internal.
#pragma once
#include <memory>

#include "warptape/autograd/node.h"

namespace wt::detail {

// Puts `form` into the slot, which gives up its tensor. Never throws.
void pack(Node* n, SavedSlot& slot, std::unique_ptr<PackedSlot> form);
// The slot holds a tensor that a policy may put into another form: no leaf.
bool can_pack(const SavedSlot& slot);
// checkpoint.cpp: a slot of a node recorded by a checkpointed function.
void recompute_slot(Node* n, SavedSlot& slot);

}  // namespace wt::detail
