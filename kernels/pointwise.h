// Elementwise operators: the contracts that follow from THE LIST (pointwise_list.h). The entries,
// values and derivatives, are in pointwise_formulas.h and pointwise_activations.h. No STL: device
// code includes this.
//
// Add an operator: its struct (one line for most), one line in a list, one row in tests/op_cases.
// Declaration, definition, contracts, kernels and both derivatives follow.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/pointwise/pointwise_formulas.h"
#include "warptape/kernels/pointwise/pointwise_list.h"
#include "warptape/kernels/pointwise_activations.h"
#undef WT_UNARY
#undef WT_BINARY
#undef WT_UNARY_PREDICATE
#undef WT_BINARY_PREDICATE

namespace wt {
namespace pw {

// The fused backward with respect to operand I of entry F: its operands are gy and what that
// derivative needs of a, b and the output, in this order.
template <class F, int I>
struct Grad : Kind<Domain::floating, Derivative::none> {
  static constexpr int kNeeds = I == 0 ? F::kNeeds0 : F::kNeeds1;
  static constexpr int kAtB = (kNeeds & kNeedsA) != 0, kAtOut = kAtB + ((kNeeds & kNeedsB) != 0);
  static constexpr int kArity = 1 + kAtOut + ((kNeeds & kNeedsOut) != 0);
  static constexpr bool kLong = F::kLong;
  // Which operand is an angle.
  static constexpr int kAngleAt = F::kAngle && (kNeeds & kNeedsA) != 0 ? 1 : -1;
  F f{};
  template <class T, class... Saved>
  WT_FORMULA T value(T gy, Saved... saved) const {
    const T v[] = {saved..., gy};  // gy stands in for what is not needed
    if constexpr (F::kArity == 1)
      return f.d0(gy, v[0], v[kAtOut]);
    else if constexpr (I == 0)
      return f.d0(gy, v[0], v[kAtB], v[kAtOut]);
    else
      return f.d1(gy, v[0], v[kAtB], v[kAtOut]);
  }
};
// The operand that is an angle; -1: none.
template <class F>
constexpr int kAngleOperand = F::kAngle ? 0 : -1;
template <class F, int I>
constexpr int kAngleOperand<Grad<F, I>> = Grad<F, I>::kAngleAt;

// f of its operands.
template <class F, class T>
WT_FORMULA auto apply(const F& f, const T (&v)[F::kArity]) {
  if constexpr (F::kArity == 1)
    return f.value(v[0]);
  else if constexpr (F::kArity == 2)
    return f.value(v[0], v[1]);
  else if constexpr (F::kArity == 3)
    return f.value(v[0], v[1], v[2]);
  else
    return f.value(v[0], v[1], v[2], v[3]);
}

template <class F>
using Grad0 = Grad<F, 0>;
template <class F>
using Grad1 = Grad<F, 1>;

// Throws InternalError: the kernels of a contract were called with a dtype they are not made for.
[[noreturn]] WT_COLD void outside_domain(const char* contract, DType t);

}  // namespace pw

// out[i] = f.value(in[0][i], in[1][i], ...), operands broadcast to out's shape; out may be one of
// them. A null view stands for the scalar (at most one operand). The operands have one dtype, which
// is out's too, except: predicates write bool, and operand 0 of `where` is bool.
template <class F>
struct PointwiseArgs {
  static constexpr int kSliceViews = 1 + F::kArity;  // kernels/dispatch/run_slices.h
  static constexpr bool kSliceBroadcast = true;
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
  // What it computes in: the dtype of the operands.
  WT_HOT DType dtype() const {
    if constexpr (!F::kPredicate)
      return out.dtype();
    else
      return in[0] ? in[0].dtype() : in[F::kArity - 1].dtype();
  }
};

// X(contract name, argument struct)
#define WT_PW_FORWARD(X, name, F) X(name, PointwiseArgs<pw::F>)
#define WT_PW_BACKWARD(X, name, F) X(name##_backward, PointwiseArgs<pw::Grad0<pw::F>>)
#define WT_PW_BACKWARD_AB(X, name, F)                   \
  X(name##_backward_a, PointwiseArgs<pw::Grad0<pw::F>>) \
  X(name##_backward_b, PointwiseArgs<pw::Grad1<pw::F>>)
// A file each (pointwise_<group>.cpp and .cu): they take the compiler long enough.
#define WT_POINTWISE_UNARY_CONTRACTS(X)       \
  WT_POINTWISE_UNARY_COMMON(WT_PW_FORWARD, X) \
  WT_POINTWISE_OTHER(WT_PW_FORWARD, X)
#define WT_POINTWISE_RARE_CONTRACTS(X) WT_POINTWISE_UNARY_RARE(WT_PW_FORWARD, X)
#define WT_POINTWISE_PLAIN_CONTRACTS(X) WT_POINTWISE_UNARY_PLAIN(WT_PW_FORWARD, X)
#define WT_POINTWISE_BINARY_CONTRACTS(X) WT_POINTWISE_BINARY(WT_PW_FORWARD, X)
#define WT_POINTWISE_BINARY_PLAIN_CONTRACTS(X)       \
  WT_POINTWISE_BINARY_PLAIN_COMMON(WT_PW_FORWARD, X) \
  WT_POINTWISE_OTHER_PLAIN(WT_PW_FORWARD, X)
#define WT_POINTWISE_RARE_BINARY_CONTRACTS(X) WT_POINTWISE_BINARY_PLAIN_RARE(WT_PW_FORWARD, X)
#define WT_POINTWISE_BACKWARD_CONTRACTS(X) WT_POINTWISE_UNARY_COMMON(WT_PW_BACKWARD, X)
#define WT_POINTWISE_RARE_BACKWARD_CONTRACTS(X) WT_POINTWISE_UNARY_RARE(WT_PW_BACKWARD, X)
#define WT_POINTWISE_BINARY_BACKWARD_CONTRACTS(X) \
  WT_POINTWISE_OTHER(WT_PW_BACKWARD, X)           \
  WT_POINTWISE_BINARY(WT_PW_BACKWARD_AB, X)
#define WT_POINTWISE_FORWARD_CONTRACTS(X) \
  WT_POINTWISE_UNARY_CONTRACTS(X)         \
  WT_POINTWISE_RARE_CONTRACTS(X)          \
  WT_POINTWISE_PLAIN_CONTRACTS(X)         \
  WT_POINTWISE_BINARY_CONTRACTS(X)        \
  WT_POINTWISE_BINARY_PLAIN_CONTRACTS(X)  \
  WT_POINTWISE_RARE_BINARY_CONTRACTS(X)
#define WT_POINTWISE_GRADIENT_CONTRACTS(X) \
  WT_POINTWISE_BACKWARD_CONTRACTS(X)       \
  WT_POINTWISE_RARE_BACKWARD_CONTRACTS(X)  \
  WT_POINTWISE_BINARY_BACKWARD_CONTRACTS(X)
#define WT_POINTWISE_CONTRACTS(X)   \
  WT_POINTWISE_FORWARD_CONTRACTS(X) \
  WT_POINTWISE_GRADIENT_CONTRACTS(X)

#define WT_POINTWISE_DECLARE(contract, Args) WT_CONTRACT(contract, Args);
WT_POINTWISE_CONTRACTS(WT_POINTWISE_DECLARE)
#undef WT_POINTWISE_DECLARE

}  // namespace wt
