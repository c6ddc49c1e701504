// Normalisation by channels: batch (Ioffe and Szegedy 2015, arXiv:1502.03167), group (Wu and He
// 2018, arXiv:1803.08494) and instance normalisation, forward and backward.
#pragma once
#include "warptape/core/activation.h"
#include "warptape/kernels/contract.h"

namespace wt {

// Large operands are seen as [N, C, S]: samples, channels, and what lies inside a channel; any
// strides, so that NCHW and NHWC are both taken without a copy. They are f64 f32 f16 bf16, one
// dtype; statistics and sums are f64 for f64, else f32 (A below), contiguous. weight and bias: [C]
// of x's dtype, contiguous; absent: 1 and 0.
//
// `groups` says which elements share a mean and a variance, M of them:
//   0       a channel, over all samples: C statistics, M = N S
//   g > 0   of each sample, C / g neighbouring channels: N g statistics, M = C / g S

//   mean = sum(x) / M    variance = sum((x - mean)^2) / M    rstd = 1 / sqrt(variance + eps)
// stats: [3, statistics]: the mean, what its rounding left of it, rstd. variance: [statistics]; may
// be absent. The variance is taken around the mean, in parts that are joined as in Chan, Golub,
// LeVeque 1983, and x - mean is taken in two steps, so that a large offset does not cancel. The
// order of the additions depends on shape and strides alone.
struct ChannelStatsArgs {
  View stats, variance;
  View x;
  i64 groups;
  double eps;
  i64 bytes() const { return x.bytes() + stats.bytes(); }
  i64 flops() const { return 4 * x.numel(); }
};
WT_CONTRACT(channel_stats, ChannelStatsArgs);

// The three contracts below know an activation f behind the norm, y = f(z): nothing but x, its
// statistics and the parameters is read for its gradient, as z is made again in registers.

// z = (x - mean) * rstd * weight + bias, y = f(z). y: x's shape and dtype; may be x.
struct ChannelNormForwardArgs {
  View y;
  View x, stats, weight, bias;
  i64 groups;
  Activation activation = Activation::none;
  i64 bytes() const { return x.bytes() + y.bytes(); }
  i64 flops() const { return 4 * x.numel(); }
};
WT_CONTRACT(channel_norm_forward, ChannelNormForwardArgs);

// With h = (x - mean) * rstd and gz = gy * f'(z): the sums of gz, then of gz * h. sums: [2, C] over
// all samples for groups 0, else [2, N, C], of each sample's channels. Zeros where there is nothing
// to add. weight and bias are read with an activation only.
struct ChannelNormSumsArgs {
  View sums;
  View gy, x, stats;
  i64 groups;
  Activation activation = Activation::none;
  View weight{}, bias{};
  i64 bytes() const { return gy.bytes() + x.bytes() + sums.bytes(); }
  i64 flops() const { return 5 * x.numel(); }
};
WT_CONTRACT(channel_norm_sums, ChannelNormSumsArgs);

// With g = gz * weight:
//   gx = rstd * (g - sum(g) / M - h * sum(g * h) / M)
// The sums over what shares a statistic come from `sums`, as channel_norm_sums writes them. Absent:
// the statistics were constants, and gx = rstd * g. gx may be gy. bias is read with an activation
// only.
struct ChannelNormBackwardArgs {
  View gx;
  View gy, x, stats, weight, sums;
  i64 groups;
  Activation activation = Activation::none;
  View bias{};
  i64 bytes() const { return gx.bytes() + gy.bytes() + x.bytes(); }
  i64 flops() const { return 6 * x.numel(); }
};
WT_CONTRACT(channel_norm_backward, ChannelNormBackwardArgs);

}  // namespace wt
