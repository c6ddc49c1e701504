// Order: sorting, counting, drawing by weight.
#pragma once
#include "warptape/core/philox.h"
#include "warptape/kernels/contract.h"

namespace wt {

// The first k elements of `in` along the axis in order, k being the size of `indices` there: their
// places (i64), and in `values`, where it is there, themselves. Equal elements keep their order;
// -0 equals 0; NaN is larger than any number. Every computing dtype, any strides.
struct SortArgs {
  static constexpr int kSliceViews = 3;  // kernels/dispatch/run_slices.h
  static constexpr bool kSliceBroadcast = false;
  void shift_axes(int n) { axis += n; }
  View values, indices, in;
  int axis = 0;
  bool descending = false;
  i64 bytes() const { return in.bytes() + indices.bytes() + (values ? values.bytes() : 0); }
  i64 flops() const { return in.numel(); }
};
WT_CONTRACT(sort, SortArgs);

// out[b] = how often b occurs in `in` (i64), or with weights the sum of theirs (of their dtype,
// added in f64 in the order of the list). in: 1-d, i64, i32, u8 or bool, its values below out's
// size and not negative.
struct BincountArgs {
  View out, in, weights;
  i64 bytes() const { return out.bytes() + in.bytes() + (weights ? weights.bytes() : 0); }
  i64 flops() const { return in.numel(); }
};
WT_CONTRACT(bincount, BincountArgs);

// out [rows, draws] (i64): places drawn from each row of p [rows, places] with probabilities in
// proportion to it; p is floating, not negative and not all zero. With replacement draw j of row r
// inverts the running sum at uniform53(philox(key, r * draws + j, call)). Without, place c waits
// for a time -log(1 - u) / p[c] with u of block r * places + c, and the first ones to come are
// drawn in this order (Efraimidis and Spirakis, 2006).
struct MultinomialArgs {
  View out, p;
  bool replacement = false;
  PhiloxKey key{};
  u64 call = 0;
  i64 bytes() const { return out.bytes() + p.bytes(); }
  i64 flops() const { return p.numel(); }
};
WT_CONTRACT(multinomial, MultinomialArgs);

}  // namespace wt
