// What the cpu variants of the normalisation by channels share. Internal to
// kernels/channel_norm.cpp and kernels/cpu/.
#pragma once
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/common/channels.h"
#include "warptape/kernels/cpu/isa.h"

namespace wt {

// The means of g = gy * weight and of g * h over what shares a statistic with channel c of sample
// n; zeros without sums. Channels are asked for in order: each statistic is added up once.
template <class A, class T>
class MeanGradients {
 public:
  MeanGradients(const ChannelShape& s, const A* sums, const T* weight)
      : s_(s), sums_(sums), weight_(weight) {}
  void go_to(i64 n, i64 c) {
    if (!sums_ || c % s_.width() != 0) return;
    const i64 all = s_.cells();
    double plain = 0, product = 0;
    for (i64 k = c; k < c + s_.width(); ++k) {
      const double w = weight_ ? double(A(weight_[k])) : 1;
      plain += w * double(sums_[s_.cell(n, k)]);
      product += w * double(sums_[all + s_.cell(n, k)]);
    }
    g = A(plain / s_.count());
    gh = A(product / s_.count());
  }
  A g = 0, gh = 0;

 private:
  const ChannelShape& s_;
  const A* sums_;
  const T* weight_;
};

#if WT_X86
// cpu/channel_norm_stats.cpp, cpu/channel_norm_vector.cpp: f32 whose channels lie in one piece each
// (NCHW), or whose neighbouring elements are the channels (NHWC), with threads.
const char* channel_stats_why_not(const ChannelStatsArgs& a);
const char* channel_forward_why_not(const ChannelNormForwardArgs& a);
const char* channel_sums_why_not(const ChannelNormSumsArgs& a);
const char* channel_backward_why_not(const ChannelNormBackwardArgs& a);
i64 channel_stats_workspace(const ChannelStatsArgs& a);
i64 channel_sums_workspace(const ChannelNormSumsArgs& a);
void channel_stats_vector(const ChannelStatsArgs& a, const Launch& l);
void channel_forward_vector(const ChannelNormForwardArgs& a, const Launch& l);
void channel_sums_vector(const ChannelNormSumsArgs& a, const Launch& l);
void channel_backward_vector(const ChannelNormBackwardArgs& a, const Launch& l);
#endif

}  // namespace wt
