// A tensor as [N, C, S]: samples, channels, and what lies inside a channel; and which of its
// elements share a statistic (`groups` of kernels/channel_norm.h). No STL: device code includes
// this.
#pragma once
#include "warptape/kernels/common/rows.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

// Sizes, and which statistic an element belongs to.
struct ChannelShape {
  i64 samples, channels, size;  // N, C, S
  i64 groups;
  ChannelShape(const View& x, i64 g)
      : samples(x.size(0)), channels(x.size(1)), size(x.size(2)), groups(g) {}
  WT_HD bool batch() const { return groups == 0; }
  WT_HD i64 width() const { return batch() ? 1 : channels / groups; }  // channels a statistic
  WT_HD i64 statistics() const { return batch() ? channels : samples * groups; }
  WT_HD double count() const {  // M
    return batch() ? double(samples) * double(size) : double(width()) * double(size);
  }
  WT_HD i64 statistic(i64 n, i64 c) const { return batch() ? c : n * groups + c / width(); }
  WT_HD i64 cell(i64 n, i64 c) const { return batch() ? c : n * channels + c; }  // in `sums`
  WT_HD i64 cells() const { return batch() ? channels : samples * channels; }
};

// The cells of statistic k: samples [n0, n1) of channels [c0, c1).
struct StatisticCells {
  i64 n0, n1, c0, c1;
  WT_HD StatisticCells(const ChannelShape& s, i64 k)
      : n0(s.batch() ? 0 : k / s.groups),
        n1(s.batch() ? s.samples : n0 + 1),
        c0(s.batch() ? k : k % s.groups * s.width()),
        c1(c0 + s.width()) {}
};

// An operand's elements.
template <class T>
struct Cells {
  T* data;
  i64 sample, channel, step;  // strides
  explicit Cells(const View& v)
      : data(v.as<T>()), sample(v.stride(0)), channel(v.stride(1)), step(v.stride(2)) {}
  WT_HD T* at(i64 n, i64 c) const { return data + n * sample + c * channel; }
  // x[n, c, :]
  WT_HD RowOf<T> row(i64 n, i64 c) const { return {at(n, c), step}; }
};

// Of one statistic.
template <class A>
struct Centre {
  A mean, rest, rstd;
  WT_HD Centre(const ChannelShape& s, const A* stats, i64 k)
      : mean(stats[k]), rest(stats[s.statistics() + k]), rstd(stats[2 * s.statistics() + k]) {}
  WT_HD A distance(A x) const { return (x - mean) - rest; }
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

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
