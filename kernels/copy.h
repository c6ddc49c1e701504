// Copies with conversion, and fills.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// out[i] = convert(in[i]), `in` broadcast to the shape of `out`.
//
// Any dtype to any dtype, storage-only ones included, any strides; out and in do not overlap unless
// they are the same elements. Equal dtypes keep every bit. To a float: rounded once to nearest
// even, overflow gives inf (e4m3: NaN). Float to integer: towards zero,
// clamped to the type's range, NaN gives 0. Integer to integer: modulo 2^bits. To bool: v != 0.
struct CopyArgs {
  static constexpr int kSliceViews = 2;  // kernels/dispatch/run_slices.h
  static constexpr bool kSliceBroadcast = true;
  View out, in;
  i64 bytes() const { return out.bytes() + in.bytes(); }
  i64 flops() const { return 0; }
};
WT_CONTRACT(copy, CopyArgs);

// out[i] = value: integers from `i`, floats and bool from `f` (both are set: Scalar has both).
struct FillArgs {
  static constexpr int kSliceViews = 1;
  static constexpr bool kSliceBroadcast = true;
  View out;
  double f = 0;
  i64 i = 0;
  i64 bytes() const { return out.bytes(); }
  i64 flops() const { return 0; }
};
WT_CONTRACT(fill, FillArgs);

namespace detail {
// The value as an element of out's dtype, in the lowest bytes. Integers are cut to their width.
u64 fill_bits(const FillArgs& a);
}  // namespace detail

}  // namespace wt
