// What the reductions of local, mpi and tcp are made of. Internal.
//
// A partial result travels in a wider dtype where the tensor's own would lose bits: f32 for f16 and
// bf16, so that a sum is rounded once, by finish(). NaN passes through every operation; integers
// wrap around; of bools anything but zero is true, and 1.
#pragma once
#include "warptape/dist/communicator.h"

namespace wt::dist {

// Of partial results of `t`.
constexpr DType wire_dtype(DType t) { return is_half(t) ? DType::f32 : t; }

// to[i] = from[i], `n` elements of `t` as partial results.
void widen(DType t, void* to, const void* from, i64 n);
// to[i] = a[i] op b[i], partial results of `t` all three; `to` may be a or b. `mean` adds.
void combine(ReduceOp op, DType t, void* to, const void* a, const void* b, i64 n);
// The same, where b is still elements of `t`.
void combine_own(ReduceOp op, DType t, void* to, const void* a, const void* b, i64 n);
// to[i] = from[i] as `t`, divided by `ranks` for a mean. In place where the dtypes are the same.
void finish(ReduceOp op, DType t, void* to, const void* from, i64 n, int ranks);

}  // namespace wt::dist
