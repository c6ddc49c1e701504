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

// What element q of an average is divided by.
inline double pool_divisor(const PoolShape& s, const i64* q) {
  if (s.divisor != 0) return double(s.divisor);
  double count = 1;
  for (int d = 0; d < 3; ++d) {
    const PoolWindow w = pool_window(s, d, q[d]);
    if (s.adaptive || !s.count_padding) {
      count *= double(w.end - w.begin);
    } else {
      const i64 end = s.in[d] + s.padding[d] - w.start;
      count *= double(end < s.kernel[d] ? end : s.kernel[d]);
    }
  }
  return count;
}

}  // namespace wt
