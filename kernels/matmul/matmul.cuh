// What the kernels of the matrix product share.
#pragma once
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/vector.cuh"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {

// What products of T are summed in: as ComputeType, but integers unsigned, so that they wrap.
template <class T>
struct MatmulSum {
  using type = ComputeType<T>;
};
template <>
struct MatmulSum<i64> {
  using type = u64;
};
template <>
struct MatmulSum<i32> {
  using type = u32;
};

// The matrices of one batch index.
template <class T>
struct Matrices {
  T* out;
  const T* a;
  const T* b;
};
template <class T>
__device__ __forceinline__ Matrices<T> matrices_at(const MatmulArgs& g, i64 index) {
  i64 out = 0, a = 0, b = 0;
  // Rolled up: 64-bit divisions are dozens of instructions each, and a block does this once a
  // matrix.
#pragma unroll 1
  for (int d = g.batch_ndim; d-- > 0;) {
    const i64 rest = index / g.batch[d].size, i = index - rest * g.batch[d].size;
    out += i * g.batch[d].out;
    a += i * g.batch[d].a;
    b += i * g.batch[d].b;
    index = rest;
  }
  return {static_cast<T*>(g.out) + out, static_cast<const T*>(g.a) + a,
          static_cast<const T*>(g.b) + b};
}

// Bands of 8 tile rows, each walked column by column: blocks that run at the same time share their
// operands in L2.
struct TilePlace {
  i64 row, column;
};
__device__ __forceinline__ TilePlace tile_place(u32 index, u32 tile_rows, u32 tile_columns) {
  constexpr u32 kBand = 8;
  // Row by row, the blocks that run together (132 on an H100, or a small multiple) would want all
  // of b for a strip of a. A band is as many blocks on a more square area: fewer different tiles,
  // read from memory once and then found in L2.
  const u32 first = index / (kBand * tile_columns) * kBand,
            in_band = index % (kBand * tile_columns);
  const u32 rows = tile_rows - first < kBand ? tile_rows - first : kBand;
  return {i64(first + in_band % rows), i64(in_band / rows)};
}
// Elements left from here on, as far as a tile can care.
__device__ __forceinline__ int clamp_left(i64 left) { return left < 1024 ? int(left) : 1024; }

inline u32 tiles(i64 size, int tile) { return u32((size + tile - 1) / tile); }

// Grid of one block a tile; z runs over the batch and loops beyond 65,535.
inline Config tile_grid(const MatmulArgs& g, const Launch& l, int rows, int columns, dim3 block) {
  const i64 batches = g.batches();
  return {.grid = dim3(tiles(g.m, rows) * tiles(g.n, columns), 1,
                       unsigned(batches < 65535 ? batches : 65535)),
          .block = block,
          .stream = l.stream,
          .op_name = l.op ? l.op->name : nullptr};
}

// matmul_pipelined.cu: stages of cp.async.
const char* pipelined_why_not_on(const MatmulArgs& g, const DeviceLimits& d);
void pipelined(const MatmulArgs& g, const Launch& l);
const char* pipelined_split_k_why_not(const MatmulArgs& g);
int pipelined_split_k_rank(const MatmulArgs& g);
void pipelined_split_k(const MatmulArgs& g, const Launch& l);

// matmul_hopper.cu: TMA and wgmma.
const char* hopper_why_not(const MatmulArgs& g);
const char* hopper_why_not_on(const MatmulArgs& g, const DeviceLimits& d);
void hopper(const MatmulArgs& g, const Launch& l);

}  // namespace WT_DEVICE_NS

// matmul_cublas.cpp: cuBLASLt.
const char* matmul_vendor_why_not(const MatmulArgs& g);
i64 matmul_vendor_workspace(const MatmulArgs& g);
void matmul_vendor(const MatmulArgs& g, const Launch& l);
void matmul_vendor_epilogues(const MatmulArgs& g, const Launch& l);

}  // namespace wt
