// Large matrix products on the cpu, f32 and f64.
//
// One operand is copied into panels of two vectors' width (transposed where need be), the other is
// read where it lies, a scalar at a time. Which one is which is free: (a b)^T = b^T a^T, and a tile
// can be stored transposed. A layer's weight is larger than its batch, so packing the smaller one
// saves most of what packing costs at these sizes.
#include <algorithm>
#include <cstring>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/cpu/packed_tile.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/matmul/matmul_cpu.h"

namespace wt {

namespace {

// Terms at a time: a tile's rows and a panel stay in a first-level cache.
constexpr i64 kMaxDepth = 384, kTileBytes = 46 << 10;
constexpr double kWorkAThread = 5e5;  // multiplications that are worth waking a thread

constexpr i64 kBlockBytes = 512 << 10;  // of packed panels at a time: half of a common L2

// A product as the tiles see it: rows of `a` by columns of the packed operand.
template <class T>
struct Oriented {
  const T* a;
  i64 a_row, a_column;
  const T* b;
  i64 b_row, b_column;
  T* out;
  i64 out_row, out_column;
  i64 rows, columns, depth;
  const T* bias;
  bool turned;  // this is the transposed product: out and bias run along the rows
  bool accumulate;
};

template <class T>
Oriented<T> orient(const MatmulArgs& g, bool transposed) {
  const T *a = static_cast<const T*>(g.a), *b = static_cast<const T*>(g.b);
  const T* bias = static_cast<const T*>(g.bias);
  T* out = static_cast<T*>(g.out);
  if (transposed)
    return {b,         g.b_column, g.b_row, a,   g.a_column, g.a_row, out,         1,
            g.out_row, g.n,        g.m,     g.k, bias,       true,    g.accumulate};
  return {a, g.a_row, g.a_column, b,   g.b_row, g.b_column, out,         g.out_row,
          1, g.m,     g.n,        g.k, bias,    false,      g.accumulate};
}

i64 round_up(i64 v, i64 step) { return (v + step - 1) / step * step; }

// A panel that few tiles read is not worth a copy if its rows are contiguous.
bool reads_in_place(i64 rows, i64 b_column, int tile_rows) {
  return b_column == 1 && rows <= 2 * tile_rows;
}

// In units of a multiplication, of which a vector does many: copying an element to a panel costs
// about 8, transposing it or storing a result transposed twice or once that.
template <class T>
double cost(const Oriented<T>& g, const PackedKernels<T>& kernels) {
  const double pack = reads_in_place(g.rows, g.b_column, kernels.rows) ? 0
                      : g.b_column == 1                                ? 8
                                                                       : 16;
  const double columns = double(round_up(g.columns, kernels.width / 2));
  const double stored = !g.turned ? 0 : 8 * double(g.rows) * double(g.columns);
  return double(g.depth) * columns * (double(g.rows) + pack) + stored;
}

// Depth and columns of the block that is packed at a time.
struct Blocking {
  i64 depth, columns;
};
template <class T>
i64 most_depth(const PackedKernels<T>& kernels) {
  return std::min(kMaxDepth, kTileBytes / i64(sizeof(T)) / (kernels.width + kernels.rows));
}
template <class T>
Blocking blocking(const Oriented<T>& g, const PackedKernels<T>& kernels) {
  const i64 most = most_depth(kernels);
  const i64 chunks = std::max<i64>(1, (g.depth + most - 1) / most);
  const i64 depth = (g.depth + chunks - 1) / chunks;
  const i64 panel = std::max<i64>(1, depth) * kernels.width * i64(sizeof(T));
  const i64 columns = std::max<i64>(1, kBlockBytes / panel) * kernels.width;
  return {depth, std::min(columns, round_up(g.columns, kernels.width))};
}

// A tile's rows are copied before many panels read them: rows whose starts are a multiple of 4 KiB
// apart, which share one set of the first-level cache, and that has fewer ways than a tile has
// rows; and rows that lie transposed, whose every step in depth is on another page.
constexpr i64 kSetBytes = 4096;
template <class T>
bool copies_rows(const Oriented<T>& g, i64 panels) {
  return panels >= 4 && (g.a_column != 1 || g.a_row * i64(sizeof(T)) % kSetBytes == 0);
}
template <class T>
i64 copied_row(i64 depth) {
  return round_up(depth, 64 / i64(sizeof(T))) + 64 / i64(sizeof(T));
}
// To `rows` rows of the scratch memory; transposed ones stay so, one step in depth after the other.
template <class T>
void copy_rows(const Oriented<T>& g, i64 rows, i64 depth, T* scratch, PackedTile<T>& tile) {
  const T* from = tile.a;
  tile.a = scratch;
  if (g.a_column == 1) {
    tile.a_row = copied_row<T>(depth);
    for (i64 i = 0; i < rows; ++i)
      std::memcpy(scratch + i * tile.a_row, from + i * g.a_row, size_t(depth) * sizeof(T));
    return;
  }
  tile.a_row = 1;
  tile.a_column = rows;
  constexpr i64 kAhead = 16;  // steps in depth: the processor's own prefetch ends with a page
  for (i64 p = 0; p < depth; ++p, from += g.a_column, scratch += rows) {
    __builtin_prefetch(from + kAhead * g.a_column);
    if (g.a_row == 1)
      std::memcpy(scratch, from, size_t(rows) * sizeof(T));
    else
      for (i64 i = 0; i < rows; ++i) scratch[i] = from[i * g.a_row];
  }
}

// The packed operand's present block.
template <class T>
struct Block {
  const T* panels;
  i64 j0, columns, p0, depth;
};

template <class T>
void run_tile(const Oriented<T>& g, const PackedKernels<T>& kernels, const Block<T>& block, i64 i0,
              i64 i1, T* scratch) {
  PackedTile<T> tile{};
  tile.a = g.a + i0 * g.a_row + block.p0 * g.a_column;
  tile.a_row = g.a_row;
  tile.a_column = g.a_column;
  if (scratch) copy_rows(g, i1 - i0, block.depth, scratch, tile);
  tile.depth = block.depth;
  tile.out_row = g.out_row;
  tile.out_column = g.out_column;
  tile.turned = g.turned;
  tile.add = g.accumulate || block.p0 > 0;
  const bool in_place = reads_in_place(g.rows, g.b_column, kernels.rows);
  for (i64 j = 0; j < block.columns; j += kernels.width) {
    tile.columns = int(std::min<i64>(kernels.width, block.columns - j));
    const bool direct = in_place && tile.columns == kernels.width;
    tile.panel = direct ? g.b + block.p0 * g.b_row + block.j0 + j : block.panels + j * block.depth;
    tile.panel_row = direct ? g.b_row : kernels.width;
    tile.out = g.out + i0 * g.out_row + (block.j0 + j) * g.out_column;
    if (g.bias && block.p0 == 0) tile.bias = g.bias + (g.turned ? i0 : block.j0 + j);
    (2 * tile.columns > kernels.width ? kernels.wide : kernels.narrow)[i1 - i0](tile);
  }
}

template <class T>
void pack_panel(const Oriented<T>& g, const PackedKernels<T>& kernels, const Block<T>& block,
                T* panels, i64 panel) {
  const i64 j = panel * kernels.width;
  const int columns = int(std::min<i64>(kernels.width, block.columns - j));
  if (columns == kernels.width && reads_in_place(g.rows, g.b_column, kernels.rows)) return;
  kernels.pack(panels + j * block.depth, g.b + block.p0 * g.b_row + (block.j0 + j) * g.b_column,
               g.b_row, g.b_column, block.depth, columns);
}

// Threads that the work is worth, at most num_threads().
template <class T>
int threads_for(const Oriented<T>& g) {
  const double work = double(g.rows) * double(g.columns) * double(g.depth);
  return int(std::min({double(num_threads()), work / kWorkAThread + 1, double(g.rows)}));
}

template <class T>
void multiply(const Oriented<T>& g, T* workspace) {
  const PackedKernels<T>& kernels = matmul_packed_kernels<T>();
  const Blocking size = blocking(g, kernels);
  const int threads = threads_for(g);
  T* const scratch = workspace + size.depth * size.columns;
  // Tiles of nearly equal height: a short last one would waste most of its registers.
  const i64 tiles = (g.rows + kernels.rows - 1) / kernels.rows;
  for (i64 j0 = 0; j0 < g.columns; j0 += size.columns) {
    for (i64 p0 = 0; p0 == 0 || p0 < g.depth; p0 += std::max<i64>(size.depth, 1)) {
      const Block<T> block{workspace, j0, std::min(size.columns, g.columns - j0), p0,
                           std::min(size.depth, g.depth - p0)};
      const i64 panels = (block.columns + kernels.width - 1) / kernels.width;
      parallel(threads, int(panels),
               [&](int panel, int) { pack_panel(g, kernels, block, workspace, panel); });
      const bool copies = copies_rows(g, panels);
      parallel(threads, int(tiles), [&](int tile, int worker) {
        T* const mine =
            copies ? scratch + worker * kernels.rows * copied_row<T>(size.depth) : nullptr;
        run_tile(g, kernels, block, g.rows * tile / tiles, g.rows * (tile + 1) / tiles, mine);
      });
    }
  }
}

// The cheaper way round.
template <class T>
Oriented<T> best_orientation(const MatmulArgs& g) {
  const Oriented<T> straight = orient<T>(g, false), turned = orient<T>(g, true);
  const PackedKernels<T>& kernels = matmul_packed_kernels<T>();
  return cost(turned, kernels) < cost(straight, kernels) ? turned : straight;
}

// At least what blocking() makes of it, and never less for a larger product: a depth that is one
// more may be cut in two.
template <class T>
i64 workspace_elements(const MatmulArgs& args) {
  const Oriented<T> g = best_orientation<T>(args);
  const PackedKernels<T>& kernels = matmul_packed_kernels<T>();
  const i64 depth = std::clamp<i64>(g.depth, 1, most_depth(kernels)), width = kernels.width;
  const i64 columns = round_up(std::max<i64>(1, g.columns), width);
  const i64 panels =
      std::min(depth * columns, std::max(kBlockBytes / i64(sizeof(T)), depth * width));
  const bool copies = copies_rows(g, blocking(g, kernels).columns / width);
  return panels + (copies ? threads_for(g) * kernels.rows * copied_row<T>(depth) : 0);
}

template <class T>
void product(const MatmulArgs& g, void* workspace) {
  multiply(best_orientation<T>(g), static_cast<T*>(workspace));
}

}  // namespace

const char* matmul_packed_why_not(const MatmulArgs& g) {
  return g.dtype == DType::f32 || g.dtype == DType::f64 ? nullptr : "takes f32 and f64 only";
}

// Ahead of OpenBLAS 0.3.21 by 3 to 10 % up to about 800 cubed, level or a little behind beyond.
int matmul_packed_rank(const MatmulArgs& g) {
  constexpr double kAhead = 5e8;
  const bool is_ahead = double(g.m) * double(g.n) * double(g.k) <= kAhead || blas_is_behind();
  return cpu_isa() >= kAvx2 && is_ahead ? 40 : 15;
}

i64 matmul_packed_workspace(const MatmulArgs& g) {
  return g.dtype == DType::f32 ? workspace_elements<float>(g) * 4
                               : workspace_elements<double>(g) * 8;
}

void matmul_packed(const MatmulArgs& g, const Launch& l) {
  const i64 batches = g.batches();
  for (i64 i = 0; i < batches; ++i) {
    const MatmulArgs one = matmul_at(g, i);
    g.dtype == DType::f32 ? product<float>(one, l.workspace) : product<double>(one, l.workspace);
  }
  if (g.row_sum) matmul_row_sum(g);
}

}  // namespace wt
