// The cpu's fast reductions (cpu/reduce.cpp).
#pragma once
#include "warptape/kernels/reduce.h"

namespace wt::detail {

// Entry F over floats: sum and the largest element of every floating dtype, the rest of f32 only;
// any and all of every dtype.
template <class F>
void reduce_vectorized(const ReduceArgs<F>& a, const Launch& l);
template <>
void reduce_vectorized(const AnyArgs& a, const Launch& l);  // cpu/reduce_any.cpp
template <>
void reduce_vectorized(const LogsumexpArgs& a, const Launch& l);  // cpu/reduce_logsumexp.cpp
template <class F>
const char* vectorized_why_not(const ReduceArgs<F>& a);

}  // namespace wt::detail
