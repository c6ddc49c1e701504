// Pooling on the cpu, f32 and f64, of any window where the rows of planes have no gaps.
//
// Forward: the rows that a row of windows reaches are pooled to one, and that along itself; where
// taps are asked for, every row is pooled along itself once, then those that the windows reach. A
// row is first padded, and with steps of s copied into s phases (every s-th element), so that a tap
// of all its windows is a stretch of neighbours: the loops are then those that pool channels.
// Backward: maxima are scattered to where their taps point, averages are spread along a row and the
// row is added to all that the windows reach. Averages of whole planes are sums.
#include <limits>

#include "warptape/kernels/pool/pool_cpu.h"
#include "warptape/kernels/pool/pool_windows.h"

namespace wt {

namespace {

i64 round_up(i64 v, i64 step) { return (v + step - 1) / step * step; }
i64 step_of(const PoolShape& s, int axis) { return s.adaptive ? s.kernel[axis] : s.stride[axis]; }
i64 dilation_of(const PoolShape& s, int axis) { return s.adaptive ? 1 : s.dilation[axis]; }
i64 padding_of(const PoolShape& s, int axis) { return s.adaptive ? 0 : s.padding[axis]; }
i64 reach_of(const PoolShape& s, int axis) {
  return (s.kernel[axis] - 1) * dilation_of(s, axis) + 1;
}

bool has_rows(const ConvTensor& t, i64 size) { return t.at[2] == 1 || size <= 1; }

// One window, which is all there is.
bool is_whole(const PoolShape& s) {
  for (int d = 0; d < 3; ++d)
    if (s.out[d] != 1 || s.kernel[d] != s.in[d] || padding_of(s, d) != 0 || dilation_of(s, d) != 1)
      return false;
  return true;
}
bool is_dense_plane(const PoolShape& s, const ConvTensor& t) {
  return has_rows(t, s.in[2]) && (s.in[1] <= 1 || t.at[1] == s.in[2]) &&
         (s.in[0] <= 1 || t.at[0] == s.in[1] * s.in[2]);
}

// What a window of an average counts along an axis.
double count_of(const PoolShape& s, int axis, const PoolWindow& w) {
  if (s.adaptive || !s.count_padding) return double(w.end - w.begin);
  return double(std::min(s.kernel[axis], s.in[axis] + s.padding[axis] - w.start));
}

const char* why_not(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
                    const ConvTensor& taps) {
  if (!has_rows(x, s.in[2]) || !has_rows(y, s.out[2]) || (taps.data && !has_rows(taps, s.out[2])))
    return "takes channels or the pixels of a row side by side";
  if (s.taps() > 256) return "takes windows of at most 256 elements";
  for (int d = 0; d < 3; ++d)
    if (dilation_of(s, d) > s.in[d]) return "takes no windows with nothing inside";
  return nullptr;
}

// --- forward ---

// What of the workspace of one worker is whose, in elements.
struct Rows {
  i64 step, phases;  // of axis 2; how many phases the windows see
  i64 phase, line;   // elements of a phase, and of a row in phases
  i64 ring, rows;    // pooled rows that are kept: of a slice, a power of two; in all
  i64 windows;       // of a row, in whole vectors
  i64 down;          // the row that several rows are pooled to
  bool direct;       // rows are pooled where they lie
  explicit Rows(const PoolShape& s) {
    step = step_of(s, 2);
    phase = s.out[2] + (reach_of(s, 2) - 1) / step;
    phases = std::min(step, reach_of(s, 2));
    for (ring = 1; ring < reach_of(s, 1);) ring *= 2;
    rows = s.kernel[0] * ring;
    windows = round_up(s.out[2], kWhole);
    down = round_up(s.in[2], kWhole);
    const i64 last = (s.out[2] - 1) * step + reach_of(s, 2);
    direct = step == 1 && padding_of(s, 2) == 0 && last <= s.in[2];
    line = direct ? 0 : round_up(phases * phase, kWhole);
  }
  // A line, divisors, pooled rows, `down`; which rows those are; their taps, and first taps.
  i64 bytes(i64 item) const {
    const i64 elements = line + windows + rows * windows + down;
    return round_up(elements * item + rows * 8 + rows * windows + windows * 4, kWhole);
  }
  static constexpr i64 kWhole = 64;
};

template <class T, bool Max>
class PlaneForward {
 public:
  PlaneForward(const PoolShape& s, const ConvTensor& x, const ConvTensor& y, const ConvTensor& taps,
               void* room)
      : s_(s), x_(x), y_(y), taps_(taps) {
    line_ = static_cast<T*>(room);
    divisors_ = line_ + r_.line;
    pooled_ = divisors_ + r_.windows;
    down_ = pooled_ + r_.rows * r_.windows;
    held_ = reinterpret_cast<i64*>(down_ + r_.down);
    first_ = reinterpret_cast<i32*>(held_ + r_.rows);
    own_ = reinterpret_cast<u8*>(first_ + r_.windows);
    for (i64 c = 0; c < s.kernel[2]; ++c) {
      const i64 way = c * dilation_of(s, 2);
      columns_[c] = r_.direct ? way : way % r_.step * r_.phase + way / r_.step;
      column_taps_[c] = i32(c);
    }
    for (i64 q = 0; q < s.out[2]; ++q) first_[q] = i32(pool_window(s, 2, q).begin);
    if (!r_.direct) set_bounds();
  }

  void plane(i64 n, i64 c) {
    std::fill_n(held_, r_.rows, i64{-1});
    const T* const plane = pool_at<T>(x_, n, c, 0, 0, 0);
    for (i64 z = 0; z < s_.out[0]; ++z)
      for (i64 y = 0; y < s_.out[1]; ++y) {
        const PoolWindow w[2] = {pool_window(s_, 0, z), pool_window(s_, 1, y)};
        if (!Max) set_divisors(s_.divisor ? 1 : count_of(s_, 0, w[0]) * count_of(s_, 1, w[1]));
        if (!taps_.data) {
          pool_down(plane, w, pool_at<T>(y_, n, c, z, y, 0));
          continue;
        }
        const int count = take_rows(plane, w);
        pool({pooled_, pool_at<T>(y_, n, c, z, y, 0), pool_tap_at(taps_, n, c, z, y, 0), offsets_,
              numbers_, count, s_.out[2], T(1), nullptr, nullptr, own_});
      }
  }

 private:
  void pool(const PoolChannels<T>& row) const {
    (Max ? kernels_.max_channels : kernels_.avg_channels)(row);
  }

  // Asks for the rows that the next windows reach first, at a plane's end for the next plane's:
  // rows are too short for the processor to foresee them (of f64 maxima of 3 x 3 that was 0.4 of
  // the time). Inlined: g++ 12 drops calls of a function that only prefetches.
  WT_HOT void fetch_next(const T* plane, const PoolWindow* w) const {
    const i64 y = w[1].start + (w[1].end - 1) * dilation_of(s_, 1) + 1;
    const i64 z = w[0].start + (w[0].end - 1) * dilation_of(s_, 0);
    u64 row = reinterpret_cast<u64>(plane + z * x_.at[0] + (y - 1) * x_.at[1]);
    for (i64 n = std::min<i64>(step_of(s_, 1), 4); n > 0; --n) {
      row += u64(x_.at[1]) * sizeof(T);
      for (u64 i = 0; i < u64(s_.in[2]) * sizeof(T); i += 64)
        __builtin_prefetch(reinterpret_cast<const void*>(row + i));
    }
  }

  // Pools the rows that a row of windows reaches, where that is still to be done.
  int take_rows(const T* plane, const PoolWindow* w) {
    int n = 0;
    for (i64 a = w[0].begin; a < w[0].end; ++a)
      for (i64 b = w[1].begin; b < w[1].end; ++b) {
        const i64 z = w[0].start + a * dilation_of(s_, 0), y = w[1].start + b * dilation_of(s_, 1);
        const i64 slot = a * r_.ring + (y & (r_.ring - 1)), at = slot * r_.windows;
        if (held_[slot] != z * s_.in[1] + y) {
          held_[slot] = z * s_.in[1] + y;
          const T* row = plane + z * x_.at[0] + y * x_.at[1];
          if (!r_.direct) row = pack(row);
          pool({row, pooled_ + at, own_ + at, columns_, column_taps_, int(s_.kernel[2]), s_.out[2],
                T(1), padding_of(s_, 2) ? first_ : nullptr});
        }
        offsets_[n] = at;
        numbers_[n++] = i32((a * s_.kernel[1] + b) * s_.kernel[2]);
      }
    return n;
  }

  // Where nobody asks for taps: first the rows, where they lie, to one, with steps of 1 to where
  // that is padded; then that along itself.
  void pool_down(const T* plane, const PoolWindow* w, T* y) {
    int n = 0;
    for (i64 a = w[0].begin; a < w[0].end; ++a)
      for (i64 b = w[1].begin; b < w[1].end; ++b)
        offsets_[n++] = (w[0].start + a * dilation_of(s_, 0)) * x_.at[0] +
                        (w[1].start + b * dilation_of(s_, 1)) * x_.at[1];
    fetch_next(plane, w);
    const bool padded = r_.step == 1 && !r_.direct;
    T* const down = padded ? line_ + padding_of(s_, 2) : down_;
    pool({plane, down, nullptr, offsets_, numbers_, n, s_.in[2], T(1)});
    pool({r_.direct ? down_
          : padded  ? line_
                    : pack(down_),
          y, nullptr, columns_, column_taps_, int(s_.kernel[2]), s_.out[2], T(1), nullptr,
          Max ? nullptr : divisors_});
  }

  // What of each phase lies inside; the rest of the line never changes.
  void set_bounds() {
    std::fill_n(line_, r_.line, Max ? -std::numeric_limits<T>::infinity() : T(0));
    const i64 padding = padding_of(s_, 2), step = r_.step;
    for (i64 ph = 0; ph < r_.phases; ++ph) {
      const i64 before = std::max<i64>(0, padding - ph), left = s_.in[2] + padding - ph;
      begin_[ph] = std::min(r_.phase, (before + step - 1) / step);
      end_[ph] = std::clamp((left + step - 1) / step, begin_[ph], r_.phase);
    }
  }
  // line[ph][i] = from[i step + ph - padding]
  const T* pack(const T* from) const {
    const i64 step = r_.step;
    T* to = line_;
    from -= padding_of(s_, 2);
    for (i64 ph = 0; ph < r_.phases; ++ph, to += r_.phase) {
      const i64 begin = begin_[ph], end = end_[ph];
      if (step == 1) {
        std::copy(from + begin, from + end, to + begin);
      } else if (r_.phases == 2 && step == 2) {
        if (begin < end) to[begin] = from[2 * begin + ph], to[end - 1] = from[2 * (end - 1) + ph];
      } else {
        for (i64 i = begin; i < end; ++i) to[i] = from[i * step + ph];
      }
    }
    if (r_.phases != 2 || step != 2) return line_;
    // The ends of the two differ by one element at most: those are there.
    const i64 begin = std::max(begin_[0], begin_[1]), end = std::min(end_[0], end_[1]);
    if (begin < end)
      kernels_.split_row({line_ + begin, line_ + r_.phase + begin, from + 2 * begin, end - begin});
    return line_;
  }

  void set_divisors(double rows) {
    if (rows == count_) return;
    count_ = rows;
    for (i64 q = 0; q < s_.out[2]; ++q)
      divisors_[q] =
          T(s_.divisor ? double(s_.divisor) : rows * count_of(s_, 2, pool_window(s_, 2, q)));
  }

  const PoolShape& s_;
  const ConvTensor &x_, &y_, &taps_;
  const PoolKernels<T>& kernels_ = pool_kernels<T>();
  const Rows r_{s_};
  T *line_, *divisors_, *pooled_, *down_;
  i64* held_;   // by place among the pooled rows: which one lies there
  i32* first_;  // by window: its first tap inside
  u8* own_;     // of the pooled rows: taps along themselves
  double count_ = -1;
  i64 begin_[256], end_[256];  // by phase
  i64 columns_[256], offsets_[256];
  i32 column_taps_[256], numbers_[256];
};

// --- averages of whole planes ---

// f(n, c, channels): the planes of an image, cut where there are fewer images than threads can
// take.
template <class F>
void for_images(const PoolShape& s, F&& f) {
  const i64 cuts = pool_threads(s) == 1 ? 1 : std::max<i64>(1, 2 * num_threads() / s.batch);
  const i64 step = (s.channels + cuts - 1) / cuts, pieces = (s.channels + step - 1) / step;
  pool_tasks(s, s.batch * pieces, [&](i64 i, int) {
    const i64 c = i % pieces * step;
    f(i / pieces, c, std::min(step, s.channels - c));
  });
}
template <class T>
void whole_forward(const PoolShape& s, const ConvTensor& x, const ConvTensor& y) {
  const i64 q[3] = {0, 0, 0}, length = s.in[0] * s.in[1] * s.in[2];
  const T divisor = T(pool_divisor(s, q));
  for_images(s, [&](i64 n, i64 c, i64 channels) {
    pool_kernels<T>().sum_planes({pool_at<T>(y, n, c, 0, 0, 0), pool_at<T>(x, n, c, 0, 0, 0),
                                  y.channel, x.channel, length, channels, divisor});
  });
}
template <class T>
void whole_backward(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy) {
  const i64 q[3] = {0, 0, 0}, length = s.in[0] * s.in[1] * s.in[2];
  const T divisor = T(pool_divisor(s, q));
  for_images(s, [&](i64 n, i64 c, i64 channels) {
    T* to = pool_at<T>(gx, n, c, 0, 0, 0);
    const T* from = pool_at<T>(gy, n, c, 0, 0, 0);
    for (i64 k = 0; k < channels; ++k, to += gx.channel, from += gy.channel)
      std::fill_n(to, length, *from / divisor);
  });
}

// --- backward ---

// The taps of a window along a row, and what it is divided by there.
struct Span {
  i64 begin, end;
  double count;
};

template <class T>
void clear_plane(const PoolShape& s, const ConvTensor& gx, i64 n, i64 c) {
  for (i64 z = 0; z < s.in[0]; ++z)
    for (i64 y = 0; y < s.in[1]; ++y) std::fill_n(pool_at<T>(gx, n, c, z, y, 0), s.in[2], T(0));
}

template <class T>
void scatter_plane(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy,
                   const ConvTensor& taps, i64 n, i64 c, const i64* offsets) {
  clear_plane<T>(s, gx, n, c);
  T* const plane = pool_at<T>(gx, n, c, 0, 0, 0);
  for (i64 z = 0; z < s.out[0]; ++z)
    for (i64 y = 0; y < s.out[1]; ++y) {
      const i64 z0 = pool_window(s, 0, z).start, y0 = pool_window(s, 1, y).start;
      const i64 row = z0 * gx.at[0] + y0 * gx.at[1];  // may lie before the plane
      const T* const g = pool_at<T>(gy, n, c, z, y, 0);
      const u8* const tap = pool_tap_at(taps, n, c, z, y, 0);
      if (s.adaptive)
        for (i64 q = 0; q < s.out[2]; ++q)
          plane[row + pool_window(s, 2, q).start + offsets[tap[q]]] += g[q];
      else
        for (i64 q = 0, x = row - s.padding[2]; q < s.out[2]; ++q, x += s.stride[2])
          plane[x + offsets[tap[q]]] += g[q];
    }
}
template <class T>
void scatter_planes(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy,
                    const ConvTensor& taps) {
  i64 offsets[256];
  for (i64 tap = 0; tap < s.taps(); ++tap)
    offsets[tap] = tap / s.kernel[2] / s.kernel[1] * dilation_of(s, 0) * gx.at[0] +
                   tap / s.kernel[2] % s.kernel[1] * dilation_of(s, 1) * gx.at[1] +
                   tap % s.kernel[2] * dilation_of(s, 2);
  pool_tasks(s, s.batch * s.channels, [&](i64 i, int) {
    scatter_plane<T>(s, gx, gy, taps, i / s.channels, i % s.channels, offsets);
  });
}

template <class T>
void spread_plane(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy, i64 n, i64 c,
                  const Span* spans, T* row) {
  clear_plane<T>(s, gx, n, c);
  for (i64 z = 0; z < s.out[0]; ++z)
    for (i64 y = 0; y < s.out[1]; ++y) {
      const PoolWindow u = pool_window(s, 0, z), v = pool_window(s, 1, y);
      const double rows = s.divisor ? 1 : count_of(s, 0, u) * count_of(s, 1, v);
      const T* const g = pool_at<T>(gy, n, c, z, y, 0);
      std::fill_n(row, s.in[2], T(0));
      for (i64 q = 0; q < s.out[2]; ++q) {
        const T share = g[q] / T(rows * spans[q].count);
        for (i64 x = spans[q].begin; x < spans[q].end; ++x) row[x] += share;
      }
      for (i64 a = u.begin; a < u.end; ++a)
        for (i64 b = v.begin; b < v.end; ++b)
          pool_kernels<T>().add_row(
              {pool_at<T>(gx, n, c, u.start + a, v.start + b, 0), row, s.in[2]});
    }
}
template <class T>
void spread_planes(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy,
                   void* workspace) {
  Span* const spans = static_cast<Span*>(workspace);
  T* const rows = reinterpret_cast<T*>(spans + s.out[2]);
  for (i64 q = 0; q < s.out[2]; ++q) {
    const PoolWindow w = pool_window(s, 2, q);
    spans[q] = {w.start + w.begin, w.start + w.end,
                s.divisor ? double(s.divisor) : count_of(s, 2, w)};
  }
  pool_tasks(s, s.batch * s.channels, [&](i64 i, int worker) {
    spread_plane<T>(s, gx, gy, i / s.channels, i % s.channels, spans, rows + worker * s.in[2]);
  });
}

}  // namespace

const char* pool_planes_forward_why_not(const PoolShape& s, bool max, const ConvTensor& x,
                                        const ConvTensor& y, const ConvTensor& taps) {
  if (!max && is_whole(s) && is_dense_plane(s, x)) return nullptr;
  if (s.adaptive && s.in[2] % s.out[2] != 0) return "takes windows of one length along a row";
  if (std::min(step_of(s, 2), reach_of(s, 2)) > 256) return "takes no windows of so wide a reach";
  return why_not(s, x, y, taps);
}
const char* pool_planes_backward_why_not(const PoolShape& s, const ConvTensor& gx,
                                         const ConvTensor& gy, const ConvTensor& taps) {
  if (!taps.data && is_whole(s) && is_dense_plane(s, gx)) return nullptr;
  return why_not(s, gx, gy, taps);
}

i64 pool_planes_forward_workspace(const PoolShape& s) {
  if (s.y_numel() == 0) return 0;
  return pool_threads(s) * Rows(s).bytes(item_size(s.dtype));
}
i64 pool_planes_backward_workspace(const PoolShape& s) {
  if (s.x_numel() == 0) return 0;
  return s.out[2] * i64(sizeof(Span)) + pool_threads(s) * s.in[2] * item_size(s.dtype);
}

template <class T, bool Max>
void pool_planes_forward(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
                         const ConvTensor& taps, void* workspace) {
  if (s.y_numel() == 0) return;
  if (!Max && is_whole(s) && is_dense_plane(s, x)) return whole_forward<T>(s, x, y);
  const i64 planes = s.batch * s.channels, bytes = Rows(s).bytes(sizeof(T));
  const int threads = pool_threads(s);
  const i64 tasks = std::min<i64>(planes, i64(threads) * 8);
  parallel(threads, int(tasks), [&](int task, int worker) {
    PlaneForward<T, Max> forward(s, x, y, taps, static_cast<char*>(workspace) + worker * bytes);
    for (i64 i = planes * task / tasks; i < planes * (task + 1) / tasks; ++i)
      forward.plane(i / s.channels, i % s.channels);
  });
}

template <class T, bool Max>
void pool_planes_backward(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy,
                          const ConvTensor& taps, void* workspace) {
  if (s.x_numel() == 0) return;
  if (Max) return scatter_planes<T>(s, gx, gy, taps);
  if (is_whole(s) && is_dense_plane(s, gx)) return whole_backward<T>(s, gx, gy);
  spread_planes<T>(s, gx, gy, workspace);
}

#define WT_POOL_PLANES(T, Max)                                                            \
  template void pool_planes_forward<T, Max>(const PoolShape&, const ConvTensor&,          \
                                            const ConvTensor&, const ConvTensor&, void*); \
  template void pool_planes_backward<T, Max>(const PoolShape&, const ConvTensor&,         \
                                             const ConvTensor&, const ConvTensor&, void*);
WT_POOL_PLANES(float, true)
WT_POOL_PLANES(float, false)
WT_POOL_PLANES(double, true)
WT_POOL_PLANES(double, false)
#undef WT_POOL_PLANES

}  // namespace wt
