// Tiles of a product over packed panels (matmul/matmul_packed_cpu.cpp), which attention and
// convolution run on too.
#pragma once
#include "warptape/core/types.h"

namespace wt {

inline constexpr int kMaxTileRows = 14;

// Some rows of a times one panel: `depth` terms, `columns` results a row. The panel's rows are
// always full (zeros, or values that are not stored).
template <class T>
struct PackedTile {
  const T* a;
  i64 a_row, a_column;
  const T* panel;
  i64 panel_row;
  i64 depth;
  T* out;
  i64 out_row, out_column;
  const T* bias;  // along out's unit stride, or null
  int columns;
  bool turned;  // out has unit stride along the rows of the tile, else along its columns
  bool add;     // to what out holds
};
template <class T>
struct PackedKernels {
  using Tile = void (*)(const PackedTile<T>&);
  int rows, width;  // of a full tile
  // to[p][x] = from[p * p_stride + x * x_stride], rows of `width` elements.
  void (*pack)(T* to, const T* from, i64 p_stride, i64 x_stride, i64 depth, int columns);
  Tile wide[kMaxTileRows + 1], narrow[kMaxTileRows + 1];  // by rows; narrow: half a panel
};
// For the instruction set in use.
template <class T>
const PackedKernels<T>& matmul_packed_kernels();

}  // namespace wt
