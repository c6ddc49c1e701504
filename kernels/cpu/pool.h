// What the cpu's pooling is made of. Internal to kernels/pool.cpp and kernels/cpu/.
#pragma once
#include "warptape/kernels/pool.h"

namespace wt {

// cpu/pool_vector.cpp: f32 where channels lie side by side, and windows of 2 x 2 in steps of 2
// where rows do.
const char* max_pool_forward_why_not(const MaxPoolForwardArgs& a);
void max_pool_forward_vector(const MaxPoolForwardArgs& a, const Launch& l);
const char* max_pool_backward_why_not(const MaxPoolBackwardArgs& a);
void max_pool_backward_vector(const MaxPoolBackwardArgs& a, const Launch& l);
const char* avg_pool_forward_why_not(const AvgPoolForwardArgs& a);
void avg_pool_forward_vector(const AvgPoolForwardArgs& a, const Launch& l);
const char* avg_pool_backward_why_not(const AvgPoolBackwardArgs& a);
void avg_pool_backward_vector(const AvgPoolBackwardArgs& a, const Launch& l);

// cpu/pool_threaded.cpp: the reference, its images dealt out to threads.
template <class Args>
const char* pool_threaded_why_not(const Args& a) {
  return a.shape.batch > 1 ? nullptr : "takes several images only";
}
template <class Args>
void pool_threaded(const Args& a, const Launch& l);

}  // namespace wt
