// What is fixed about an operator. One constexpr object an operator, listed once (autograd/ops.h);
// `wt ops`, the missing-row check, profiler rows and errors all read it.
#pragma once
#include "warptape/core/types.h"

namespace wt {

// What autocast does with the floating operands: lower = to the mode's 16-bit type, f32 = up,
// promote = to the widest among them, none = as they come.
enum class Autocast : u8 { none, lower, f32, promote };

// What the checks may expect of the derivative: smooth = two derivatives; linear and piecewise =
// the second one is identically zero and that is no mistake; none = not differentiable.
enum class Derivative : u8 { smooth, linear, piecewise, none };

struct OpInfo {
  const char* name;
  Autocast autocast = Autocast::none;
  Derivative derivative = Derivative::smooth;
  bool view = false;            // the output shares the input's storage
  bool in_place = false;        // writes its first operand
  bool data_dependent = false;  // may read values on the host: throws on meta without a bound
  bool mixed_devices = false;   // operands need not be on one device (copies)
  bool sign_of_output = false;  // of a saved output, backward asks only whether it is above zero
  bool composite = false;       // made of other operators: no kernel of its own
};

}  // namespace wt
