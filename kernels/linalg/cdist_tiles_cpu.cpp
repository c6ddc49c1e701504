// Distances of all pairs on the cpu, by tiles: the points of one side are copied into panels, a
// coordinate after the other, the points of the other are read where they lie, a scalar at a time.
// A tile adds up its norms in registers, so that no difference ever lies in memory.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/linalg/cdist_cpu.h"

namespace wt {

namespace {

constexpr i64 kTaskRows = 96, kTaskPanels = 32;
constexpr i64 kPackCost = 16, kTurnCost = 16;  // of an element, in differences of a vector's lane

i64 round_up(i64 v, i64 step) { return (v + step - 1) / step * step; }

// Which side lies in panels, and how y is stepped through from there.
struct Sides {
  CdistPoints rows, lanes;
  i64 y_row, y_column;
  i64 panels, panel;  // how many; elements of one
};
i64 cost(const CdistPoints& rows, const CdistPoints& lanes, i64 width, bool turned) {
  return rows.depth * (round_up(lanes.count, width / 2) * rows.count + kPackCost * lanes.count) +
         (turned ? kTurnCost * rows.count * lanes.count : 0);
}
Sides sides_of(const CdistForwardArgs& a, i64 width) {
  const CdistPoints p(a.a), q(a.b);
  const bool turned = cost(q, p, width, true) < cost(p, q, width, false);
  const CdistPoints &rows = turned ? q : p, &lanes = turned ? p : q;
  return {rows,
          lanes,
          a.y.stride(turned ? 2 : 1),
          a.y.stride(turned ? 1 : 2),
          (lanes.count + width - 1) / width,
          rows.depth * width};
}

// --- copies ---

template <class T, class C>
void pack_panel(C* to, const T* from, const CdistPoints& p, i64 columns, i64 width) {
  for (i64 k = 0; k < p.depth; ++k, from += p.column, to += width) {
    for (i64 x = 0; x < columns; ++x) to[x] = C(from[x * p.row]);
    std::fill(to + columns, to + width, C(0));
  }
}
template <class T, class C>
void copy_points(C* to, const T* from, const CdistPoints& p) {
  for (i64 i = 0; i < p.count; ++i)
    for (i64 k = 0; k < p.depth; ++k) *to++ = C(from[i * p.row + k * p.column]);
}

// What of the workspace is whose, in elements: panels of one side, copies of 16-bit points of the
// other.
template <class T>
struct Layout {
  i64 panels_batch, panels, rows_batch = 0, rows = 0;
  Layout(const Sides& s, i64 batches) {
    panels_batch = s.panels * s.panel;
    panels = panels_batch * (s.lanes.shared ? 1 : batches);
    if (sizeof(T) == 2) {
      rows_batch = s.rows.count * s.rows.depth;
      rows = rows_batch * (s.rows.shared ? 1 : batches);
    }
  }
};

// --- the tiles ---

// Rows [from, to) by the panels [first, last) of one batch.
struct Task {
  i64 n, from, to, first, last;
};

template <class T, class Y>
struct Forward {
  using C = ComputeType<T>;
  const CdistForwardArgs& a;
  const CdistKernels<C>& kernels = cdist_kernels<C>();
  Metric metric = metric_of(a.p);
  Sides s = sides_of(a, kernels.width);
  Layout<T> layout{s, a.y.size(0)};
  C *panels, *copies;

  Forward(const CdistForwardArgs& args, void* workspace)
      : a(args), panels(static_cast<C*>(workspace)), copies(panels + layout.panels) {}

  void prepare() const {
    const i64 width = kernels.width;
    for (i64 n = 0; n < (s.lanes.shared ? 1 : a.y.size(0)); ++n)
      for (i64 j = 0; j < s.panels; ++j)
        pack_panel(panels + n * layout.panels_batch + j * s.panel,
                   s.lanes.template at<T>(n) + j * width * s.lanes.row, s.lanes,
                   std::min(width, s.lanes.count - j * width), width);
    for (i64 n = 0; n < (s.rows.shared ? 1 : a.y.size(0)) && layout.rows; ++n)
      copy_points(copies + n * layout.rows_batch, s.rows.template at<T>(n), s.rows);
  }

  // The first of the points that are read where they lie.
  CdistTile<C> tile_at(i64 n, i64 row) const {
    CdistTile<C> t{};
    if constexpr (sizeof(T) == 2) {
      t.a_row = s.rows.depth, t.a_column = 1;
      t.a = copies + (s.rows.shared ? 0 : n * layout.rows_batch) + row * t.a_row;
    } else {
      t.a_row = s.rows.row, t.a_column = s.rows.column;
      t.a = s.rows.template at<C>(n) + row * t.a_row;
    }
    t.depth = s.rows.depth;
    t.p = C(a.p);
    return t;
  }

  // `rows` rows by one panel.
  void run_tile(CdistTile<C> t, Y* y, int rows, int which) const {
    const auto tile = metric == Metric::power
                          ? kernels.power_tile
                          : kernels.tiles[int(metric)][2 * t.columns > kernels.width][which];
    if constexpr (std::is_same_v<Y, C>) {
      if (s.y_column == 1 || t.columns == 1) {
        t.out = y, t.out_row = s.y_row;
        return tile(t);
      }
    }
    constexpr int kMostLanes = 2 * 64 / int(sizeof(C));
    alignas(64) C block[kCdistRows[0] * kMostLanes];
    t.out = block, t.out_row = kMostLanes;
    tile(t);
    for (int r = 0; r < rows; ++r)
      for (int x = 0; x < t.columns; ++x)
        y[r * s.y_row + x * s.y_column] = Y(block[r * kMostLanes + x]);
  }

  void operator()(const Task& task) const {
    const i64 width = kernels.width;
    const int first_size = metric == Metric::power ? 2 : 0;  // of kCdistRows: single rows
    for (i64 j = task.first; j < task.last; ++j) {
      i64 row = task.from;
      CdistTile<C> t = tile_at(task.n, row);
      t.panel = panels + (s.lanes.shared ? 0 : task.n * layout.panels_batch) + j * s.panel;
      t.columns = int(std::min(width, s.lanes.count - j * width));
      Y* y = a.y.as<Y>() + task.n * a.y.stride(0) + row * s.y_row + j * width * s.y_column;
      for (int which = first_size; which < 3; ++which)
        for (const int rows = kCdistRows[which]; row + rows <= task.to; row += rows) {
          run_tile(t, y, rows, which);
          t.a += rows * t.a_row, y += rows * s.y_row;
        }
    }
  }
};

template <class T, class Y>
void forward(const CdistForwardArgs& a, const Launch& l) {
  const Forward<T, Y> f(a, l.workspace);
  f.prepare();
  const i64 rows = f.s.rows.count, blocks = (rows + kTaskRows - 1) / kTaskRows;
  const i64 groups = (f.s.panels + kTaskPanels - 1) / kTaskPanels;
  const i64 all = a.y.size(0) * blocks * groups, tasks = std::min<i64>(all, 1 << 12);
  const double work = double(a.y.numel()) * double(a.a.size(2) + 8);
  const int threads = int(std::min(double(num_threads()), work / kCdistWorkAThread + 1));
  parallel(threads, int(tasks), [&](int task, int) {
    for (i64 i = all * task / tasks; i < all * (task + 1) / tasks; ++i) {
      const i64 block = i / groups % blocks, group = i % groups * kTaskPanels;
      f({i / groups / blocks, block * kTaskRows, std::min(rows, (block + 1) * kTaskRows), group,
         std::min(f.s.panels, group + kTaskPanels)});
    }
  });
}

}  // namespace

i64 cdist_tiles_workspace(const CdistForwardArgs& a) {
  if (a.y.numel() == 0) return 0;
  return dispatch_floating(a.a.dtype(), [&]<class T>() -> i64 {
    using C = ComputeType<T>;
    const Layout<T> layout(sides_of(a, cdist_kernels<C>().width), a.y.size(0));
    return (layout.panels + layout.rows) * i64(sizeof(C));
  });
}

void cdist_tiles_forward(const CdistForwardArgs& a, const Launch& l) {
  if (a.y.numel() == 0) return;
  dispatch_floating(a.a.dtype(), [&]<class T>() {
    a.y.dtype() == a.a.dtype() ? forward<T, T>(a, l) : forward<T, ComputeType<T>>(a, l);
  });
}

}  // namespace wt
