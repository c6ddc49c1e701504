// What the rows of operators with an activation on the way share.
#pragma once
#include "warptape/tests/op_cases/op_case.h"
#include "warptape/tests/support/activations.h"

namespace wt_test {

inline const char* name_of(Activation f) {
  constexpr const char* kNames[] = {"none", "relu",  "gelu",     "gelu_tanh",
                                    "silu", "relu6", "hardswish"};
  return kNames[int(f)];
}
// As PyTorch writes it, of `z`.
inline std::string torch_of(Activation f, const std::string& z) {
  switch (f) {
    case Activation::relu:
      return "F.relu(" + z + ")";
    case Activation::gelu:
      return "F.gelu(" + z + ")";
    case Activation::gelu_tanh:
      return "F.gelu(" + z + ", approximate='tanh')";
    case Activation::silu:
      return "F.silu(" + z + ")";
    case Activation::relu6:
      return "F.relu6(" + z + ")";
    case Activation::hardswish:
      return "F.hardswish(" + z + ")";
    default:
      return z;
  }
}

// Which of the options are there.
struct Way {
  Activation activation;
  bool bias, residual;
};

}  // namespace wt_test
