// Which input elements a window of a pooling takes, and which windows take an input element. No
// STL: device code includes this.
//
// Shape is PoolShape, or any struct with its sizes in integers of another width.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {
#ifdef WT_DEVICE_NS  // a .cu file includes this: its own copy, apart from the other device's
inline namespace WT_DEVICE_NS {
#endif

template <class Shape>
using PoolIndex = decltype(Shape::batch);

// The taps [begin, end) of a window that lie inside, and where tap 0 is.
template <class I>
struct PoolWindowOf {
  I start, begin, end;
};
using PoolWindow = PoolWindowOf<i64>;

template <class Shape>
WT_HD WT_HOT PoolWindowOf<PoolIndex<Shape>> pool_window(const Shape& s, int axis,
                                                        PoolIndex<Shape> q) {
  using I = PoolIndex<Shape>;
  const I in = s.in[axis];
  if (s.adaptive) {
    // q * in / out without the product, which can be too large.
    const I out = s.out[axis], whole = in / out, rest = in % out;
    const I first = q * whole + q * rest / out;
    const I last = (q + 1) * whole + ((q + 1) * rest + out - 1) / out;
    return {first, 0, last - first};
  }
  const I start = q * s.stride[axis] - s.padding[axis], step = s.dilation[axis];
  // Most windows are dense, and a division costs as much as a short row of a plane.
  const auto taps_to = [step](I length) { return step == 1 ? length : (length + step - 1) / step; };
  const I begin = start < 0 ? taps_to(-start) : 0;
  const I end = start < in ? taps_to(in - start) : 0;
  return {start, begin, end < s.kernel[axis] ? end : s.kernel[axis]};
}

// What element q of an average is divided by, computed as C.
template <class C = double, class Shape>
WT_HD WT_HOT C pool_divisor(const Shape& s, const PoolIndex<Shape>* q) {
  using I = PoolIndex<Shape>;
  if (s.divisor != 0) return C(s.divisor);
  C count = 1;
  for (int d = 0; d < 3; ++d) {
    const PoolWindowOf<I> w = pool_window(s, d, q[d]);
    if (s.adaptive || !s.count_padding) {
      count *= C(w.end - w.begin);
    } else {
      const I end = s.in[d] + s.padding[d] - w.start;
      count *= C(end < s.kernel[d] ? end : s.kernel[d]);
    }
  }
  return count;
}

// f(position, tap) for the taps of window q that lie inside, in order.
template <class Shape, class F>
WT_HD WT_HOT void for_window(const Shape& s, const PoolIndex<Shape>* q, F&& f) {
  using I = PoolIndex<Shape>;
  const PoolWindowOf<I> w[3] = {pool_window(s, 0, q[0]), pool_window(s, 1, q[1]),
                                pool_window(s, 2, q[2])};
  const I step[3] = {s.adaptive ? 1 : s.dilation[0], s.adaptive ? 1 : s.dilation[1],
                     s.adaptive ? 1 : s.dilation[2]};
  I p[3];
  for (I a = w[0].begin; a < w[0].end; ++a) {
    p[0] = w[0].start + a * step[0];
    for (I b = w[1].begin; b < w[1].end; ++b) {
      p[1] = w[1].start + b * step[1];
      for (I c = w[2].begin; c < w[2].end; ++c) {
        p[2] = w[2].start + c * step[2];
        f(static_cast<const I*>(p), (a * s.kernel[1] + b) * s.kernel[2] + c);
      }
    }
  }
}

// Where a tap of window q is; false outside, where a window with nothing inside points.
template <class Shape>
WT_HD WT_HOT bool tap_position(const Shape& s, PoolIndex<Shape> tap, const PoolIndex<Shape>* q,
                               PoolIndex<Shape>* p) {
  bool inside = true;
  for (int d = 3; d-- > 0;) {
    const PoolIndex<Shape> step = s.adaptive ? 1 : s.dilation[d];
    p[d] = pool_window(s, d, q[d]).start + tap % s.kernel[d] * step;
    tap /= s.kernel[d];
    inside &= p[d] >= 0 && p[d] < s.in[d];
  }
  return inside;
}

// The windows that reach input position p along an axis: [first, last].
template <class I>
struct ReachedWindows {
  I first, last;
};
template <class Shape>
WT_HD WT_HOT ReachedWindows<PoolIndex<Shape>> windows_of(const Shape& s, int axis,
                                                         PoolIndex<Shape> p) {
  using I = PoolIndex<Shape>;
  if (s.adaptive) {
    // Window q begins at or before p while q * in / out <= p.
    const I in = s.in[axis], out = s.out[axis];
    I first = p * (out / in) + p * (out % in) / in;
    const auto end = [&](I q) {
      const PoolWindowOf<I> w = pool_window(s, axis, q);
      return w.start + w.end;
    };
    while (first > 0 && end(first - 1) > p) --first;
    while (end(first) <= p) ++first;
    I last = first;
    while (last + 1 < out && pool_window(s, axis, last + 1).start <= p) ++last;
    return {first, last};
  }
  const I at = p + s.padding[axis], stride = s.stride[axis];
  const I reach = s.dilation[axis] * (s.kernel[axis] - 1) + 1;
  const I first = at < reach ? 0 : (at - reach) / stride + 1, last = at / stride;
  return {first, last < s.out[axis] ? last : s.out[axis] - 1};
}

// The tap that reaches p from window q, or -1.
template <class Shape>
WT_HD WT_HOT PoolIndex<Shape> tap_of(const Shape& s, int axis, PoolIndex<Shape> q,
                                     PoolIndex<Shape> p) {
  using I = PoolIndex<Shape>;
  const PoolWindowOf<I> w = pool_window(s, axis, q);
  const I step = s.adaptive ? 1 : s.dilation[axis], way = p - w.start;
  if (step == 1) return way >= w.begin && way < w.end ? way : -1;
  return way % step == 0 && way / step >= w.begin && way / step < w.end ? way / step : -1;
}

// g(q, tap) for the windows that reach input position p, in order.
template <class Shape, class G>
WT_HD WT_HOT void for_windows(const Shape& s, const PoolIndex<Shape>* p,
                              const ReachedWindows<PoolIndex<Shape>> (&r)[3], G&& g) {
  using I = PoolIndex<Shape>;
  I q[3];
  for (q[0] = r[0].first; q[0] <= r[0].last; ++q[0]) {
    const I a = tap_of(s, 0, q[0], p[0]);
    for (q[1] = r[1].first; q[1] <= r[1].last; ++q[1]) {
      const I b = tap_of(s, 1, q[1], p[1]);
      for (q[2] = r[2].first; q[2] <= r[2].last; ++q[2]) {
        const I t = tap_of(s, 2, q[2], p[2]);
        if (a >= 0 && b >= 0 && t >= 0)
          g(static_cast<const I*>(q), (a * s.kernel[1] + b) * s.kernel[2] + t);
      }
    }
  }
}

#ifdef WT_DEVICE_NS
}  // namespace WT_DEVICE_NS
#endif
}  // namespace wt
