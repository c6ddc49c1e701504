// The fast variants of kernels/norm/channel_norm.cpp (norm/channel_norm_stats_cpu.cpp,
// norm/channel_norm_vector_cpu.cpp): f32 whose channels lie in one piece each (NCHW), or whose
// neighbouring elements are the channels (NHWC), with AVX2 and threads.
#pragma once
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/cpu/isa.h"

namespace wt {

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

}  // namespace wt
