// What the cpu variants of the normalisation by channels share. Internal to
// kernels/channel_norm.cpp and kernels/cpu/.
#pragma once
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/cpu/isa.h"

namespace wt {

// Sizes, and which statistic an element belongs to.
struct ChannelShape {
  i64 samples, channels, size;  // N, C, S
  i64 groups;
  ChannelShape(const View& x, i64 g)
      : samples(x.size(0)), channels(x.size(1)), size(x.size(2)), groups(g) {}
  bool batch() const { return groups == 0; }
  i64 width() const { return batch() ? 1 : channels / groups; }  // channels a statistic
  i64 statistics() const { return batch() ? channels : samples * groups; }
  double count() const {  // M
    return batch() ? double(samples) * double(size) : double(width()) * double(size);
  }
  i64 statistic(i64 n, i64 c) const { return batch() ? c : n * groups + c / width(); }
  i64 cell(i64 n, i64 c) const { return batch() ? c : n * channels + c; }  // in `sums`
};

// An operand's elements.
template <class T>
struct Cells {
  T* data;
  i64 sample, channel, step;  // strides
  explicit Cells(const View& v)
      : data(v.as<T>()), sample(v.stride(0)), channel(v.stride(1)), step(v.stride(2)) {}
  T* at(i64 n, i64 c) const { return data + n * sample + c * channel; }
};

// Of one statistic.
template <class A>
struct Centre {
  A mean, rest, rstd;
  Centre(const ChannelShape& s, const A* stats, i64 k)
      : mean(stats[k]), rest(stats[s.statistics() + k]), rstd(stats[2 * s.statistics() + k]) {}
  A distance(A x) const { return (x - mean) - rest; }
};

// The means of g = gy * weight and of g * h over what shares a statistic with channel c of sample
// n; zeros without sums. Channels are asked for in order: each statistic is added up once.
template <class A, class T>
class MeanGradients {
 public:
  MeanGradients(const ChannelShape& s, const A* sums, const T* weight)
      : s_(s), sums_(sums), weight_(weight) {}
  void go_to(i64 n, i64 c) {
    if (!sums_ || c % s_.width() != 0) return;
    const i64 all = s_.batch() ? s_.channels : s_.samples * s_.channels;
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
