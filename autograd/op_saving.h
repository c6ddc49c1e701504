// What operators offer the save policies (SavePolicy), beside what OpInfo says of them. Each family
// lists its own, as it lists its operators.
#pragma once
#include <span>

#include "warptape/core/op_info.h"
#include "warptape/core/tensor.h"

namespace wt {

struct Node;

// The output of a recorded operator once more (of several: the first), by one cheap kernel from its
// operand 0, or from what `operand_slot` holds. `saved`: what its slots hold, undefined where that
// is nothing. Not recorded.
using MakeAgain = Tensor (*)(Node& recorded, const Tensor& operand, const Tensor* saved);

// How operand 0 is told from the output, which has its shape, dtype and order in memory, and a bit
// an element: set where the operand lies above `turn`.
struct Inverse {
  double turn;
  Tensor (*operand)(const Tensor& output, const Tensor& bits);
};

struct OpSaving {
  const OpInfo* op;
  MakeAgain again = nullptr;         // null: under SavePolicy::recompute the output is kept
  const Inverse* inverse = nullptr;  // null: under SavePolicy::invert operand 0 is kept
  i8 operand_slot = -1;      // the slot with what `again` is given; -1: by operand 0's recipe
  bool nan_is_above = true;  // to a backward that asks for the sign of the output
};
using OpSavings = std::span<const OpSaving>;

// Null: it offers nothing.
const OpSaving* saving_of(const OpInfo* op);

}  // namespace wt
