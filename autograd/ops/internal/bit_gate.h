// The gradient of a relu whose output is held as bits (SavePolicy::bit_mask). Internal.
#pragma once
#include "warptape/autograd/node.h"
#include "warptape/core/in.h"

namespace wt::detail {

// What becomes of gradients whose bit is not set: gy * slope where `leaky`, else 0.
struct BitGate {
  bool leaky = false;
  double slope = 0;
};

// gy where the bit is set; linear in gy, and recorded as such. One kernel, in gy's own storage
// where that is given up; gradients that lie in another order than the bits are copied first.
Tensor bit_gate(const OpInfo& info, const In& gy, const SignBits& sign, const BitGate& gate);

}  // namespace wt::detail
