// The cpu's fast reductions (reduce/reduce_cpu.cpp).
#pragma once
#include "warptape/kernels/reduce.h"

namespace wt::detail {

// Entry F over floats: sum and the largest element of every floating dtype, the rest of f32 only;
// any and all of every dtype.
template <class F>
void reduce_vectorized(const ReduceArgs<F>& a, const Launch& l);
template <>
void reduce_vectorized(const AnyArgs& a, const Launch& l);  // reduce/reduce_any_cpu.cpp
template <>
void reduce_vectorized(const LogsumexpArgs& a, const Launch& l);  // reduce/reduce_logsumexp_cpu.cpp
template <class F>
const char* vectorized_why_not(const ReduceArgs<F>& a);

}  // namespace wt::detail
