// Attention by tiles without tensor cores: what forward and backward share. Vectors are padded to W
// elements, of which a lane keeps W / L in registers: L neighbouring lanes share a query (or a
// key). A tile's products are added up over them so that each lane has whole sums of its share of
// vectors, and makes their scores, exponentials and draws, nobody twice.
#pragma once
#include "warptape/kernels/attention/attention.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/device/vector.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {

void attention_flash_forward(const AttentionForwardArgs& a, const Launch& l);
// D lies in the workspace already.
void attention_flash_queries(const AttentionBackwardArgs& a, const Launch& l);
void attention_flash_keys(const AttentionBackwardArgs& a, const Launch& l);

namespace {

constexpr int kWidest = 256;  // elements of a vector: its tiles are 32 KiB of shared memory
constexpr int kTile = 16;     // vectors in shared memory
constexpr int kStep = 8;      // of them, that products are made of at once

// Lanes that share a vector. Three of 32 elements and two products a vector of a step are 112 of a
// thread's 255 registers; of 64 elements they spilled.
template <int W>
constexpr int kLanes = W / 32;
static_assert(kStep % kLanes<kWidest> == 0);

// Vectors [first, first + kTile) of one head, zeros behind the last one and behind each one's end:
// they add nothing to a product, so that every loop over them has a length the compiler knows.
template <int W>
struct VectorTile {
  alignas(16) float v[kTile][W];

  // Returns whether this thread has seen an infinity or a NaN, by which a weight of 0 must not be
  // multiplied.
  template <class T>
  __device__ __forceinline__ bool load(const T* head, i64 row, i64 step, i64 first, i64 rows,
                                       int width) {
    const T* from = head + first * row;
    const int there = rows - first < kTile ? int(rows - first) : kTile;
    // By fours, for 16-bit types too: what a lane stores are then 16 bytes beside its neighbour's,
    // in eight different banks; eights would be two stores of 16 bytes, 32 apart.
    if (step == 1 && (row | width) % 4 == 0 && uintptr_t(from) % (4 * sizeof(T)) == 0)
      return load_by<4>(from, row, step, there, width);
    return load_by<1>(from, row, step, there, width);
  }

 private:
  template <int V, class T>
  __device__ __forceinline__ bool load_by(const T* from, i64 row, i64 step, int rows, int width) {
    bool odd = false;
#pragma unroll 4
    for (int i = int(threadIdx.x) * V; i < kTile * W; i += kAttentionThreads * V) {
      const int r = i / W, e = i % W;
      Pack<T, V> x{};
      if (r < rows && e < width) x = vload<Pack<T, V>>(from + r * row + e * step);
      Pack<float, V> y;
#pragma unroll
      for (int c = 0; c < V; ++c) {
        y.v[c] = float(x.v[c]);
        odd |= !(fabsf(y.v[c]) < INFINITY);
      }
      vstore(&v[r][e], y);
    }
    return odd;
  }
};

// A lane's part of a vector: every L-th 4 elements, so that the lanes that share it read
// neighbouring pieces of a tile's vector, those of other queries the same ones. One read of shared
// memory so serves a warp.
template <int W, int L>
struct OwnVector {
  static constexpr int kPieces = W / L / 4;
  float v[W / L];

  // The first element of piece k.
  __device__ __forceinline__ static int place(int k) { return 4 * (k * L + int(threadIdx.x) % L); }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int e = 0; e < W / L; ++e) v[e] = 0;
  }
  __device__ __forceinline__ void scale(float factor) {
#pragma unroll
    for (int e = 0; e < W / L; ++e) v[e] *= factor;
  }
  template <class T>
  __device__ __forceinline__ void load(const T* from, i64 step, int width, bool there) {
#pragma unroll
    for (int e = 0; e < W / L; ++e) {
      const int at = place(e / 4) + e % 4;
      v[e] = there && at < width ? float(from[at * step]) : 0.0f;
    }
  }
  template <class T>
  __device__ __forceinline__ void store(T* to, i64 step, int width, float factor) const {
#pragma unroll
    for (int e = 0; e < W / L; ++e) {
      const int at = place(e / 4) + e % 4;
      if (at < width) to[at * step] = T(v[e] * factor);
    }
  }
  // This lane's part of the product.
  __device__ __forceinline__ float product(const float (&other)[W]) const {
    // Four chains: one would wait four cycles for each of its additions.
    float sum[4] = {};
#pragma unroll
    for (int k = 0; k < kPieces; ++k) {
      const auto piece = vload<Pack<float, 4>>(&other[place(k)]);
#pragma unroll
      for (int c = 0; c < 4; ++c) sum[c] += v[4 * k + c] * piece.v[c];
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  __device__ __forceinline__ void add(float factor, const float (&other)[W]) {
#pragma unroll
    for (int k = 0; k < kPieces; ++k) {
      const auto piece = vload<Pack<float, 4>>(&other[place(k)]);
#pragma unroll
      for (int c = 0; c < 4; ++c) v[4 * k + c] += factor * piece.v[c];
    }
  }
};

// sum += x[0] vectors[0] + x[1] vectors[1] + ...; of a tile with an infinity or a NaN (`odd`, the
// same for the block) only what has a weight.
template <int W, int L>
__device__ __forceinline__ void add_step(OwnVector<W, L>& sum, const float (&x)[kStep],
                                         const float (*vectors)[W], bool odd) {
  if (!odd) {
#pragma unroll
    for (int r = 0; r < kStep; ++r) sum.add(x[r], vectors[r]);
    return;
  }
#pragma unroll
  for (int r = 0; r < kStep; ++r)
    if (x[r] != 0) sum.add(x[r], vectors[r]);
}

// The L lanes that share a query hold parts of N sums each. Afterwards x[0 .. N / L) of lane l are
// the whole sums l N / L, l N / L + 1, ...: in each round a lane gives half of its sums away and
// gets its partner's parts of the other half, N - N / L shuffles where adding all of them up in
// all lanes would take N log L.
template <int L, int N>
__device__ __forceinline__ void add_over_lanes(float (&x)[kStep]) {
  if constexpr (L > 1) {
    const bool upper = threadIdx.x & (L / 2);
#pragma unroll
    for (int r = 0; r < N / 2; ++r) {
      const float given = upper ? x[r] : x[r + N / 2], own = upper ? x[r + N / 2] : x[r];
      x[r] = own + __shfl_xor_sync(0xffffffffu, given, L / 2);
    }
    add_over_lanes<L / 2, N / 2>(x);
  }
}
// The way back: x[0 .. N / L) of every lane become x[0 .. N) of all.
template <int L, int N>
__device__ __forceinline__ void share_over_lanes(float (&x)[kStep]) {
  if constexpr (L > 1) {
    share_over_lanes<L / 2, N / 2>(x);
    const bool upper = threadIdx.x & (L / 2);
#pragma unroll
    for (int r = 0; r < N / 2; ++r) {
      const float own = x[r], other = __shfl_xor_sync(0xffffffffu, own, L / 2);
      x[r] = upper ? other : own;
      x[r + N / 2] = upper ? own : other;
    }
  }
}

// Calls f with the number of elements that vectors are padded to.
template <class F>
void with_width(const AttentionScores& s, const View& v, F&& f) {
  const i64 widest = s.q.size(3) > v.size(3) ? s.q.size(3) : v.size(3);
  if (widest <= 32)
    f(std::integral_constant<int, 32>{});
  else if (widest <= 64)
    f(std::integral_constant<int, 64>{});
  else if (widest <= 128)
    f(std::integral_constant<int, 128>{});
  else
    f(std::integral_constant<int, kWidest>{});
}

inline const char* why_not_flash(const AttentionScores& s, const View& v) {
  if (s.q.dtype() == DType::f64) return "f64 has the naive rung only";
  return s.q.size(3) > kWidest || v.size(3) > kWidest ? "vectors of at most 256 elements" : nullptr;
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
