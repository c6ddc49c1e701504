// Elementwise operators: THE LIST, their formulas and their derivatives.
//
// An entry is a struct with the value and one derivative an operand, written once as templates:
// with float or double they are the forward and the fused backward kernel on all three devices;
// with Tensor the derivative is a chain of differentiable operators, which is what create_graph
// needs. 16-bit types compute in float, integers in their own type. No STL: device code includes
// this.
//
// Add an operator: its struct, one line in the list below, one row in tests/op_cases.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/pointwise_math.h"

namespace wt {

// What an entry's derivatives read beside the gradient of the output.
enum PointwiseNeeds : int { kNeedsNone = 0, kNeedsA = 1, kNeedsB = 2, kNeedsOut = 4 };

namespace pw {

struct Add {
  static constexpr int kArity = 2;
  template <class T>
  WT_HD static T value(T a, T b) {
    return a + b;
  }
};

struct Mul {
  static constexpr int kArity = 2;
  template <class T>
  WT_HD static T value(T a, T b) {
    if constexpr (sizeof(T) == 1)
      return T(int(a) * int(b));  // bool and u8: no warning about arithmetic on truth values
    else
      return a * b;
  }
};

struct Relu {
  static constexpr int kArity = 1;
  static constexpr int kNeeds = kNeedsOut;
  template <class T>
  WT_HD static T value(T x) {
    return x > T(0) ? x : x != x ? x : T(0);
  }
  template <class T>
  WT_HD static T d0(const T& gy, const T&, const T& y) {
    return where(gt(y, 0), gy, zero_like(gy));
  }
};

// The fused backward of unary entry F: out = d0(gy, x, y), with the operand that F does not need
// standing in for itself (kArity is 2: gy and the needed one).
template <class F>
struct UnaryGrad {
  static constexpr int kArity = 2;
  template <class T>
  WT_HD static T value(T gy, T saved) {
    return F::d0(gy, saved, saved);
  }
};

}  // namespace pw

// out[i] = F(in[0][i], in[1][i], ...), operands broadcast to out's shape. out is dense unless it is
// an in-place destination. A null view stands for the scalar (at most one operand).
template <class F>
struct PointwiseArgs {
  View out;
  View in[F::kArity];
  double scalar = 0;   // for floating tensors
  i64 scalar_int = 0;  // for integer tensors
  F f{};               // parameters, where the entry has some

  i64 bytes() const {
    i64 n = out.bytes();
    for (const View& v : in) n += v ? v.bytes() : 0;
    return n;
  }
  i64 flops() const { return out.numel(); }
};

// X(contract name, argument struct)
#define WT_POINTWISE_CONTRACTS(X)  \
  X(add, PointwiseArgs<pw::Add>)   \
  X(mul, PointwiseArgs<pw::Mul>)   \
  X(relu, PointwiseArgs<pw::Relu>) \
  X(relu_backward, PointwiseArgs<pw::UnaryGrad<pw::Relu>>)

#define WT_POINTWISE_DECLARE(contract, Args) WT_CONTRACT(contract, Args);
WT_POINTWISE_CONTRACTS(WT_POINTWISE_DECLARE)
#undef WT_POINTWISE_DECLARE

}  // namespace wt
