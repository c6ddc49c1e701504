// Reductions over any axes: sum (and mean), max, argmax.
//
// `mask` has bit i set where axis i of `in` is reduced. `out` has the axes of `in` that are left,
// in order; axes of size 1 may be there or missing (keep_dim, or the shape of a broadcast operand).
// Any strides, expanded inputs included; out and in do not overlap. The order of the operations
// depends on shapes and strides alone: equal calls give equal bits.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/strided.h"

namespace wt {

// out = (accumulate ? out : 0) + sum(in) / divide_by
//
// f64; f32, f16 and bf16 (accumulated in f32 or better) to their own type; i64, i32, u8 and bool to
// i64, modulo 2^64, with divide_by 1. The sum of nothing is 0; divided by 0 it is NaN.
struct SumArgs {
  View out, in;
  u32 mask = 0;
  i64 divide_by = 1;
  bool accumulate = false;
  i64 bytes() const { return in.bytes() + out.bytes() * (accumulate ? 2 : 1); }
  i64 flops() const { return in.numel(); }
};
WT_CONTRACT(sum, SumArgs);

// out = the largest element; NaN if there is one. Computing dtypes, each to itself. Each output has
// at least one element to look at.
struct MaxArgs {
  View out, in;
  u32 mask = 0;
  i64 bytes() const { return in.bytes() + out.bytes(); }
  i64 flops() const { return in.numel(); }
};
WT_CONTRACT(max, MaxArgs);

// out (i64) = the place of the largest element among the reduced axes taken in C order; the first
// of equal ones; the first NaN if there is one. At least one element an output.
struct ArgmaxArgs {
  View out, in;
  u32 mask = 0;
  i64 bytes() const { return in.bytes() + out.bytes(); }
  i64 flops() const { return in.numel(); }
};
WT_CONTRACT(argmax, ArgmaxArgs);

namespace detail {
// The two loops of a reduction.
struct ReducePlan {
  LoopNest<2> kept;     // operand 0: in, operand 1: out; numel outputs
  LoopNest<1> reduced;  // in; numel elements for each output
};
// `order` of the reduced axes: memory unless their places matter.
void plan_reduction(ReducePlan& plan, const View& out, const View& in, u32 mask, LoopOrder order);
}  // namespace detail

}  // namespace wt
