// What the cpu variants of the matrix product share. Internal to kernels/matmul.cpp and
// kernels/cpu/.
#pragma once
#include "warptape/kernels/matmul.h"

namespace wt {

// cpu/matmul_vector.cpp: vector code without packing or threads. Takes every f32 and f64 product,
// ranks first for those of up to kTinyWork multiplications.
inline constexpr i64 kTinyWork = 48 * 48 * 48;
const char* matmul_tiny_why_not(const MatmulArgs& g);
int matmul_tiny_rank(const MatmulArgs& g);
void matmul_tiny(const MatmulArgs& g, const Launch& l);
// row_sum of one f32 or f64 product, for the variants that multiply elsewhere. No batch.
void matmul_row_sum(const MatmulArgs& g);

// cpu/matmul_packed.cpp: large products on our own, with threads.
const char* matmul_packed_why_not(const MatmulArgs& g);
int matmul_packed_rank(const MatmulArgs& g);
i64 matmul_packed_workspace(const MatmulArgs& g);
void matmul_packed(const MatmulArgs& g, const Launch& l);

// cpu/matmul_widened.cpp: f16 and bf16 by way of f32 copies.
const char* matmul_widened_why_not(const MatmulArgs& g);
i64 matmul_widened_workspace(const MatmulArgs& g);
void matmul_widened(const MatmulArgs& g, const Launch& l);

// cpu/matmul_blas.cpp: OpenBLAS, where the build has it.
const char* matmul_blas_why_not(const MatmulArgs& g);
void matmul_blas(const MatmulArgs& g, const Launch& l);

// --- what cpu/matmul_packed.cpp runs on ---

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
