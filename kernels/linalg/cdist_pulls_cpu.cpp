// Gradients of distances on the cpu: every point is pulled by all of the other side. Both sides are
// copied into panels of two vectors of coordinates; blocks of weights, a number a pair, are made
// once for all coordinates. The two gradients are the same sum with the sides exchanged: the
// derivative is odd in the difference.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/half_rows.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/linalg/cdist_cpu.h"

namespace wt {

namespace {

constexpr i64 kBlockRows = 48, kBlockOthers = 256;  // points of a block; whole tiles and vectors
constexpr i64 kBlock = kBlockRows * kBlockOthers;   // pairs

// A matrix of pairs as one side sees it: its own points are rows.
struct Pairs {
  View view;
  i64 row, other;  // strides
  template <class T>
  const T* at(i64 n, i64 i, i64 j) const {
    return view.as<const T>() + n * view.stride(0) + i * row + j * other;
  }
};
// One of the two gradients.
struct Side {
  View gradient;
  CdistPoints own, others;
  Pairs gy, y;
};
Side side_of(const CdistBackwardArgs& a, bool second) {
  const int i = second ? 2 : 1, j = second ? 1 : 2;
  return {second ? a.gb : a.ga, CdistPoints(second ? a.b : a.a), CdistPoints(second ? a.a : a.b),
          Pairs{a.gy, a.gy.stride(i), a.gy.stride(j)}, Pairs{a.y, a.y.stride(i), a.y.stride(j)}};
}

int threads_for(const CdistBackwardArgs& a) {
  const double work = double(a.y.numel()) * double(a.a.size(2) + 8);
  return int(std::min(double(num_threads()), work / kCdistWorkAThread + 1));
}

// --- panels: [coordinates / width][points][width] ---

i64 panels_of(const CdistPoints& p, i64 width) { return (p.depth + width - 1) / width; }
i64 panel_elements(const CdistPoints& p, i64 width, i64 batches) {
  return panels_of(p, width) * p.count * width * (p.shared ? 1 : batches);
}
template <class T, class C>
void pack(C* to, const CdistPoints& p, i64 width, i64 batches) {
  for (i64 n = 0; n < (p.shared ? 1 : batches); ++n)
    for (i64 k = 0; k < p.depth; k += width)
      for (i64 i = 0; i < p.count; ++i, to += width) {
        const T* const from = p.at<T>(n) + i * p.row + k * p.column;
        const i64 columns = std::min(width, p.depth - k);
        for (i64 x = 0; x < columns; ++x) to[x] = C(from[x * p.column]);
        std::fill(to + columns, to + width, C(0));
      }
}

// --- weights ---

// n elements that lie `step` apart.
template <class T, class C>
void gather(C* to, const T* from, i64 step, i64 n) {
  if (step == 0) {
    std::fill_n(to, n, C(*from));
  } else if (step != 1) {
    for (i64 i = 0; i < n; ++i) to[i] = C(from[i * step]);
  } else if constexpr (std::is_same_v<T, C>) {
    std::copy_n(from, n, to);
  } else {
    detail::convert_row(to, from, n);
  }
}

// What one worker needs.
template <class C>
struct Room {
  C *weights, *sizes, *sums;
};
// A block of pairs: points [i, i + rows) of the own side, [j, j + others) of the other.
struct Block {
  i64 n, i, rows, j, others;
};

// Lines run along the neighbours in y. Sets where weight (r, j) lies.
template <class T, class C>
void weigh(const Side& s, const Block& b, Metric m, const CdistKernels<C>& kernels,
           const Room<C>& room, CdistPull<C>& p) {
  const bool along_others = s.y.other <= s.y.row;
  const i64 lines = along_others ? b.rows : b.others, length = along_others ? b.others : b.rows;
  const i64 line = along_others ? kBlockOthers : kBlockRows;
  p.weights = room.weights, p.sizes = room.sizes;
  p.w_row = along_others ? line : 1, p.w_step = along_others ? 1 : line;
  for (i64 r = 0; r < lines; ++r) {
    const i64 i = b.i + (along_others ? r : 0), j = b.j + (along_others ? 0 : r);
    C *const w = room.weights + r * line, *const y = room.sizes + r * line;
    gather(w, s.gy.at<T>(b.n, i, j), along_others ? s.gy.other : s.gy.row, length);
    if (m == Metric::manhattan) continue;
    gather(y, s.y.at<C>(b.n, i, j), along_others ? s.y.other : s.y.row, length);
    kernels.weigh(m, w, y, length);
  }
}

// --- one gradient ---

template <class T>
struct Pull {
  using C = ComputeType<T>;
  const CdistBackwardArgs& a;
  Side s;
  const C *own, *others;  // panels
  const CdistKernels<C>& kernels = cdist_kernels<C>();
  Metric metric = metric_of(a.p);
  i64 width = kernels.width, panels = panels_of(s.own, width);

  // All rows of a block by all its others, coordinates of panel c.
  void run_block(CdistPull<C> p, const Block& b, i64 c, C* sums) const {
    const i64 left = s.own.depth - c * width;
    const bool wide = 2 * left > width, power = metric == Metric::power;
    const auto& pulls = kernels.pulls[power ? 0 : int(metric)][wide];  // not read for power
    const i64 full = power ? 1 : wide ? kCdistPullRows : kCdistRows[0];
    const auto place = [&](const CdistPoints& side, i64 i) {
      return ((side.shared ? 0 : b.n * panels) + c) * side.count * width + i * width;
    };
    p.x = own + place(s.own, b.i);
    p.others = others + place(s.others, b.j);
    p.count = b.others;
    p.sums = sums;
    p.p = C(a.p);
    for (i64 r = 0; r < b.rows;) {
      const i64 rows = r + full <= b.rows ? full : 1;
      (power ? kernels.power_pull : pulls[rows == 1])(p);
      r += rows;
      p.x += rows * width, p.sums += rows * width;
      p.weights += rows * p.w_row, p.sizes += rows * p.w_row;
    }
  }

  void operator()(i64 n, i64 from, i64 to, const Room<C>& room) const {
    const i64 rows = to - from, line = kBlockRows * width;
    std::fill_n(room.sums, panels * line, C(0));
    for (i64 j = 0; j < s.others.count; j += kBlockOthers) {
      const Block b{n, from, rows, j, std::min(kBlockOthers, s.others.count - j)};
      CdistPull<C> p{};
      weigh<T>(s, b, metric, kernels, room, p);
      for (i64 c = 0; c < panels; ++c) run_block(p, b, c, room.sums + c * line);
    }
    const View& g = s.gradient;
    for (i64 i = 0; i < rows; ++i) {
      T* const to_row = g.as<T>() + n * g.stride(0) + (from + i) * g.stride(1);
      for (i64 k = 0; k < s.own.depth; ++k)
        to_row[k * g.stride(2)] = T(room.sums[k / width * line + i * width + k % width]);
    }
  }
};

// Of one worker, in elements: weights, sizes and sums.
i64 room_elements(const CdistBackwardArgs& a, i64 width) {
  return 2 * kBlock + panels_of(CdistPoints(a.a), width) * kBlockRows * width;
}

template <class T>
void backward(const CdistBackwardArgs& a, const Launch& l) {
  using C = ComputeType<T>;
  const i64 width = cdist_kernels<C>().width, batches = a.y.size(0);
  const CdistPoints p(a.a), q(a.b);
  C* const first = static_cast<C*>(l.workspace);
  C* const second = first + panel_elements(p, width, batches);
  C* const rooms = second + panel_elements(q, width, batches);
  pack<T>(first, p, width, batches);
  pack<T>(second, q, width, batches);
  for (const bool other : {false, true}) {
    if (!(other ? a.gb : a.ga)) continue;
    const Pull<T> pull{a, side_of(a, other), other ? second : first, other ? first : second};
    // Blocks begin at whole tiles, of both heights.
    const i64 rows = pull.s.own.count, units = (rows + 5) / 6;
    const i64 blocks = (rows + kBlockRows - 1) / kBlockRows, all = batches * blocks;
    const i64 tasks = std::min<i64>(all, 1 << 12);
    parallel(threads_for(a), int(tasks), [&](int task, int worker) {
      C* const own = rooms + worker * room_elements(a, width);
      for (i64 i = all * task / tasks; i < all * (task + 1) / tasks; ++i) {
        const i64 b = i % blocks;
        pull(i / blocks, units * b / blocks * 6, std::min(rows, units * (b + 1) / blocks * 6),
             {own, own + kBlock, own + 2 * kBlock});
      }
    });
  }
}

template <class T>
void fill_zeros(const View& g) {
  for (i64 n = 0; n < g.size(0); ++n)
    for (i64 i = 0; i < g.size(1); ++i)
      for (i64 k = 0; k < g.size(2); ++k)
        g.as<T>()[n * g.stride(0) + i * g.stride(1) + k * g.stride(2)] = T(ComputeType<T>(0));
}

}  // namespace

i64 cdist_pulls_workspace(const CdistBackwardArgs& a) {
  if (a.y.numel() == 0) return 0;
  return dispatch_floating(a.a.dtype(), [&]<class T>() -> i64 {
    using C = ComputeType<T>;
    const i64 width = cdist_kernels<C>().width, batches = a.y.size(0);
    return i64(sizeof(C)) * (panel_elements(CdistPoints(a.a), width, batches) +
                             panel_elements(CdistPoints(a.b), width, batches) +
                             threads_for(a) * room_elements(a, width));
  });
}

void cdist_pulls(const CdistBackwardArgs& a, const Launch& l) {
  dispatch_floating(a.a.dtype(), [&]<class T>() {
    if (a.y.numel() > 0) return backward<T>(a, l);
    for (const View& g : {a.ga, a.gb})
      if (g) fill_zeros<T>(g);
  });
}

}  // namespace wt
