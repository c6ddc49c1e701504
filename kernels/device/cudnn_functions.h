// The variants named `cudnn`, kernels/*_cudnn.cpp, for the tables of cuda. No STL.
#pragma once
#include "warptape/kernels/attention.h"
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/conv.h"
#include "warptape/kernels/pool.h"

namespace wt {

#define WT_CUDNN_VARIANT(contract, Args)               \
  const char* contract##_cudnn_why_not(const Args& a); \
  void contract##_cudnn(const Args& a, const Launch& l)
WT_CUDNN_VARIANT(attention_forward, AttentionForwardArgs);
WT_CUDNN_VARIANT(attention_backward, AttentionBackwardArgs);
WT_CUDNN_VARIANT(avg_pool_forward, AvgPoolForwardArgs);
WT_CUDNN_VARIANT(avg_pool_backward, AvgPoolBackwardArgs);
WT_CUDNN_VARIANT(channel_norm_forward, ChannelNormForwardArgs);
WT_CUDNN_VARIANT(channel_norm_backward, ChannelNormBackwardArgs);
WT_CUDNN_VARIANT(conv_forward, ConvForwardArgs);
WT_CUDNN_VARIANT(conv_backward_input, ConvBackwardInputArgs);
WT_CUDNN_VARIANT(conv_backward_weight, ConvBackwardWeightArgs);  // leaves y_sum alone
WT_CUDNN_VARIANT(max_pool_forward, MaxPoolForwardArgs);
#undef WT_CUDNN_VARIANT

i64 attention_backward_cudnn_workspace(const AttentionBackwardArgs& a);

}  // namespace wt
