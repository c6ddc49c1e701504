// Rows that a copy or a fill writes: past the caches where the output is larger than they are, and
// between two orders of a matrix by tiles.
#pragma once
#include <algorithm>
#include <cstring>

#include "warptape/kernels/common/strided.h"
#include "warptape/kernels/cpu/stream.h"

namespace wt {

// Calls make(to, i, m) for pieces of a row of n elements at `out`: it writes elements [i, i + m) to
// `to`. Long rows go past the caches.
template <class T, class Make>
void write_row(T* out, i64 n, Make&& make) {
  i64 i = 0;
#if WT_X86
  if (n * i64(sizeof(T)) >= kStreamedBytes && cpu_isa() >= kAvx2) {
    alignas(kLine) T piece[kShortPiece];
    if (const i64 beyond = i64(reinterpret_cast<uintptr_t>(out) % kLine)) {
      i = (kLine - beyond) / i64(sizeof(T));
      make(out, i64{0}, i);
    }
    for (; n - i >= kShortPiece; i += kShortPiece) {
      make(piece, i, kShortPiece);
      stream_lines(out + i, piece, sizeof piece);
    }
    end_stream();
  }
#endif
  if (i < n) make(out + i, i, n - i);
}

template <class T>
void copy_row(T* out, const T* in, i64 n) {
#if WT_X86
  if (n * i64(sizeof(T)) >= kStreamedBytes && cpu_isa() >= kAvx2 && out != in) {
    const i64 beyond = i64(reinterpret_cast<uintptr_t>(out) % kLine);
    const i64 before = beyond ? (kLine - beyond) / i64(sizeof(T)) : 0;
    std::memcpy(out, in, size_t(before) * sizeof(T));
    out += before, in += before, n -= before;
    const i64 whole = n / (kLine / i64(sizeof(T))) * (kLine / i64(sizeof(T)));
    stream_lines(out, in, whole * i64(sizeof(T)));
    end_stream();
    out += whole, in += whole, n -= whole;
  }
#endif
  std::memmove(out, in, size_t(n) * sizeof(T));
}
template <class T>
void fill_row(T* out, i64 n, T value) {
#if WT_X86
  if (n * i64(sizeof(T)) >= kStreamedBytes && cpu_isa() >= kAvx2) {
    alignas(kLine) T piece[kShortPiece];
    std::fill_n(piece, kShortPiece, value);
    const i64 beyond = i64(reinterpret_cast<uintptr_t>(out) % kLine);
    const i64 before = beyond ? (kLine - beyond) / i64(sizeof(T)) : 0;
    std::fill_n(out, before, value);
    out += before, n -= before;
    for (; n >= kShortPiece; out += kShortPiece, n -= kShortPiece)
      stream_lines(out, piece, sizeof piece);
    end_stream();
  }
#endif
  std::fill_n(out, n, value);
}

// --- one matrix in two orders ---

// A tile's side: its rows are whole cache lines on both sides.
template <class T>
constexpr i64 kTile = sizeof(T) == 8 ? 32 : 64;

// tile[j][i] = in[i][j]; the tile's rows have kTile elements.
template <class T>
void read_tile(T* tile, const T* in, i64 step_in, i64 n_i, i64 n_j) {
  i64 i = 0;
#if WT_X86
  if constexpr (sizeof(T) == 4) {
    const auto* from = reinterpret_cast<const float*>(in);
    auto* to = reinterpret_cast<float*>(tile);
    for (; i + 4 <= n_i; i += 4) {
      const float* row = from + i * step_in;
      i64 j = 0;
      for (; j + 4 <= n_j; j += 4) {
        __m128 r0 = _mm_loadu_ps(row + j), r1 = _mm_loadu_ps(row + step_in + j);
        __m128 r2 = _mm_loadu_ps(row + 2 * step_in + j), r3 = _mm_loadu_ps(row + 3 * step_in + j);
        _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
        float* column = to + j * kTile<T> + i;
        _mm_store_ps(column, r0);
        _mm_store_ps(column + kTile<T>, r1);
        _mm_store_ps(column + 2 * kTile<T>, r2);
        _mm_store_ps(column + 3 * kTile<T>, r3);
      }
      for (; j < n_j; ++j)
        for (i64 k = 0; k < 4; ++k) to[j * kTile<T> + i + k] = row[k * step_in + j];
    }
  }
#endif
  for (; i < n_i; ++i)
    for (i64 j = 0; j < n_j; ++j) tile[j * kTile<T> + i] = in[i * step_in + j];
}

// out[j][i] = in[i][j]: dimension 0 of the nest is i. A tile is read by rows and leaves by rows, so
// neither side's lines have to wait in a cache, where large powers of two between rows would not
// leave them room.
template <class T>
void copy_transposed(T* out, const T* in, const LoopNest<2>& nest) {
  const i64 n_i = nest.size[0], n_j = nest.size[1];
  const i64 step_out = nest.stride[0][1], step_in = nest.stride[1][0];
  alignas(kLine) T tile[kTile<T> * kTile<T>];
#if WT_X86
  const bool stream = nest.numel * i64(sizeof(T)) >= kStreamedBytes && cpu_isa() >= kAvx2;
#endif
  for (i64 i = 0; i < n_i; i += kTile<T>)
    for (i64 j = 0; j < n_j; j += kTile<T>) {
      const i64 rows = std::min(kTile<T>, n_i - i), columns = std::min(kTile<T>, n_j - j);
      read_tile(tile, in + i * step_in + j, step_in, rows, columns);
      for (i64 c = 0; c < columns; ++c) {
        T* const to = out + (j + c) * step_out + i;
        const i64 bytes = rows * i64(sizeof(T));
#if WT_X86
        if (stream && (reinterpret_cast<uintptr_t>(to) | uintptr_t(bytes)) % kLine == 0) {
          stream_lines(to, tile + c * kTile<T>, bytes);
          continue;
        }
#endif
        std::memcpy(to, tile + c * kTile<T>, size_t(bytes));
      }
    }
#if WT_X86
  if (stream) end_stream();
#endif
}

}  // namespace wt
