// Normalisation by channels on the cpu.
#include "warptape/kernels/channel_norm.h"

#include <cmath>

#include "warptape/kernels/activation_values.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/norm/channel_norm_cpu.h"
#include "warptape/kernels/norm/channels.h"

namespace wt {
namespace {

// gz of gy and h in channel c.
template <class A, class T, class Args>
A gradient_of_z(const Args& a, i64 c, A gy, A h) {
  if (a.activation == Activation::none) return gy;
  const T *weight = a.weight.template as<const T>(), *bias = a.bias.template as<const T>();
  const A z = h * (weight ? A(weight[c]) : A(1)) + (bias ? A(bias[c]) : A(0));
  return activation_gradient(a.activation, gy, z);
}

// f(value) for the elements of statistic k, in order.
template <class T, class F>
void for_each_of(const ChannelShape& s, const Cells<const T>& x, i64 k, const F& f) {
  const StatisticCells cells(s, k);
  for (i64 n = cells.n0; n < cells.n1; ++n)
    for (i64 c = cells.c0; c < cells.c1; ++c)
      for (i64 i = 0; i < s.size; ++i) f(double(ComputeType<T>(x.row(n, c)[i])));
}

void stats_reference(const ChannelStatsArgs& a, const Launch&) {
  const ChannelShape s(a.x, a.groups);
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    A *stats = a.stats.as<A>(), *variance = a.variance.as<A>();
    const Cells<const T> x(a.x);
    for (i64 k = 0; k < s.statistics(); ++k) {
      double mean = 0, rest = 0, squares = 0, first = 0;
      bool begun = false;
      for_each_of(s, x, k, [&](double v) {
        if (!begun) first = v, begun = true;
        mean += v - first;
      });
      mean = first + mean / s.count();
      for_each_of(s, x, k, [&](double v) {
        rest += v - mean;
        squares += (v - mean) * (v - mean);
      });
      rest /= s.count();
      const double spread = squares / s.count() - rest * rest;
      stats[k] = A(mean + rest);
      stats[s.statistics() + k] = A(mean + rest - double(stats[k]));
      stats[2 * s.statistics() + k] = A(1 / std::sqrt(spread + a.eps));
      if (variance) variance[k] = A(spread);
    }
  });
}

void forward_reference(const ChannelNormForwardArgs& a, const Launch&) {
  const ChannelShape s(a.x, a.groups);
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T *weight = a.weight.as<const T>(), *bias = a.bias.as<const T>();
    const A* stats = a.stats.as<const A>();
    const Cells<const T> x(a.x);
    const Cells<T> y(a.y);
    for (i64 n = 0; n < s.samples; ++n)
      for (i64 c = 0; c < s.channels; ++c) {
        const Centre<A> centre(s, stats, s.statistic(n, c));
        const A w = weight ? A(weight[c]) : A(1), b = bias ? A(bias[c]) : A(0);
        for (i64 i = 0; i < s.size; ++i)
          y.row(n, c)[i] =
              T(activated(a.activation, centre.distance(A(x.row(n, c)[i])) * centre.rstd * w + b));
      }
  });
}

void sums_reference(const ChannelNormSumsArgs& a, const Launch&) {
  const ChannelShape s(a.x, a.groups);
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const A* stats = a.stats.as<const A>();
    A* sums = a.sums.as<A>();
    const i64 all = s.cells();
    const Cells<const T> x(a.x), gy(a.gy);
    for (i64 cell = 0; cell < all; ++cell) {
      const i64 c = cell % s.channels, n0 = s.batch() ? 0 : cell / s.channels;
      double plain = 0, product = 0;
      for (i64 n = n0; n < (s.batch() ? s.samples : n0 + 1); ++n) {
        const Centre<A> centre(s, stats, s.statistic(n, c));
        for (i64 i = 0; i < s.size; ++i) {
          const A h = centre.distance(A(x.row(n, c)[i])) * centre.rstd;
          const A g = gradient_of_z<A, T>(a, c, A(gy.row(n, c)[i]), h);
          plain += double(g);
          product += double(g * h);
        }
      }
      sums[cell] = A(plain);
      sums[all + cell] = A(product);
    }
  });
}

void backward_reference(const ChannelNormBackwardArgs& a, const Launch&) {
  const ChannelShape s(a.x, a.groups);
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T* weight = a.weight.as<const T>();
    const A* stats = a.stats.as<const A>();
    const Cells<const T> x(a.x), gy(a.gy);
    const Cells<T> gx(a.gx);
    MeanGradients<A, T> mean(s, a.sums.as<const A>(), weight);
    for (i64 n = 0; n < s.samples; ++n)
      for (i64 c = 0; c < s.channels; ++c) {
        const Centre<A> centre(s, stats, s.statistic(n, c));
        const A w = weight ? A(weight[c]) : A(1);
        mean.go_to(n, c);
        for (i64 i = 0; i < s.size; ++i) {
          const A h = centre.distance(A(x.row(n, c)[i])) * centre.rstd;
          const A g = gradient_of_z<A, T>(a, c, A(gy.row(n, c)[i]), h) * w;
          gx.row(n, c)[i] = T(centre.rstd * (g - mean.g - h * mean.gh));
        }
      }
  });
}

}  // namespace

WT_VARIANTS(cpu, channel_stats, ChannelStatsArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = channel_stats_why_not,
                        .workspace = channel_stats_workspace, .launch = channel_stats_vector){
                .name = "reference", .rank = 10, .launch = stats_reference});
WT_VARIANTS(cpu, channel_norm_forward, ChannelNormForwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = channel_forward_why_not,
                        .launch = channel_forward_vector){
                .name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, channel_norm_sums, ChannelNormSumsArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = channel_sums_why_not,
                        .workspace = channel_sums_workspace, .launch = channel_sums_vector){
                .name = "reference", .rank = 10, .launch = sums_reference});
WT_VARIANTS(cpu, channel_norm_backward, ChannelNormBackwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = channel_backward_why_not,
                        .launch = channel_backward_vector){
                .name = "reference", .rank = 10, .launch = backward_reference});

}  // namespace wt
