// The fast distances of the cpu. Internal to this room.
#pragma once
#include "warptape/kernels/cdist.h"

namespace wt {

// linalg/cdist_tiles_cpu.cpp: whatever the arguments.
i64 cdist_tiles_workspace(const CdistForwardArgs& a);
void cdist_tiles_forward(const CdistForwardArgs& a, const Launch& l);
// linalg/cdist_pulls_cpu.cpp: the same.
i64 cdist_pulls_workspace(const CdistBackwardArgs& a);
void cdist_pulls(const CdistBackwardArgs& a, const Launch& l);

// --- what they run on ---

// Points of one side: `count` of them, `depth` coordinates each.
struct CdistPoints {
  const void* data;
  i64 batch, row, column;  // strides
  i64 count, depth;
  bool shared;  // every batch has the same ones
  explicit CdistPoints(const View& v)
      : data(v.data),
        batch(v.stride(0)),
        row(v.stride(1)),
        column(v.stride(2)),
        count(v.size(1)),
        depth(v.size(2)),
        shared(v.stride(0) == 0 || v.size(0) == 1) {}
  template <class T>
  const T* at(i64 n) const {
    return static_cast<const T*>(data) + (shared ? 0 : n * batch);
  }
};

inline constexpr double kCdistWorkAThread = 1 << 16;  // differences that are worth waking a thread

// Norms of the differences of some points and the points of a panel, whose coordinate k lies in
// panel[k * width ..]. All vectors of a panel are full: zeros, or values that are not stored.
template <class T>
struct CdistTile {
  const T* a;
  i64 a_row, a_column;
  const T* panel;
  i64 depth;
  T* out;
  i64 out_row;
  int columns;  // to be stored
  T p;          // of Metric::power
};

// What `count` other points add to the gradients of some points, of `width` coordinates:
//   sums[r][k] += sum_j weight[r, j] s(x[r][k] - others[j][k], size[r, j])
// weight[r, j] lies at weights[r * w_row + j * w_step], size[r, j] likewise. A weight is 0 where
// the distance is 0; for p = 2 it holds the division by it.
template <class T>
struct CdistPull {
  const T *x, *others;
  const T *weights, *sizes;
  i64 w_row, w_step;
  i64 count;
  T* sums;
  T p;  // of Metric::power
};

inline constexpr int kCdistRows[3] = {6, 3, 1};  // of tiles; of pulls that are half a panel wide, 6
inline constexpr int kCdistPullRows = 3;         // of pulls that are a panel wide

template <class T>
struct CdistKernels {
  using Tile = void (*)(const CdistTile<T>&);
  using Pull = void (*)(const CdistPull<T>&);
  int width;            // of a panel: two vectors
  Tile tiles[4][2][3];  // by metric, vectors - 1, kCdistRows
  Tile power_tile;      // one row, two vectors
  Pull pulls[4][2][2];  // by metric (not count), vectors - 1, full or one row
  Pull power_pull;      // one row, two vectors
  // From gradients in w and distances in y, n of them, to weights and sizes; buffers are whole
  // vectors.
  void (*weigh)(Metric m, T* w, T* y, i64 n);
};
// linalg/cdist_vector_cpu.cpp: for the instruction set in use.
template <class T>
const CdistKernels<T>& cdist_kernels();

// linalg/cdist_powers_cpu.cpp: v[i] = v[i]^p.
void raise_elements(float* v, i64 n, float p);
void raise_elements(double* v, i64 n, double p);

}  // namespace wt
