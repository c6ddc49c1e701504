// Copies on simt and cuda.
#include "warptape/kernels/copy.h"

#include "warptape/core/float8.h"
#include "warptape/core/numbers/narrow.h"
#include "warptape/kernels/copy/copy.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// --- any dtype to any other: the one place where the dtype is a run-time switch ---

// A value on its way: floats as double, integers as 64 bits.
struct Carried {
  // Two registers and not one 64-bit pattern: a double does not hold every i64, an i64 no fraction.
  double f;
  u64 i;
  bool is_float, is_signed;
};
__device__ __forceinline__ Carried carry_float(double v) { return {v, 0, true, false}; }
__device__ __forceinline__ Carried carry_signed(i64 v) { return {0, u64(v), false, true}; }
__device__ __forceinline__ Carried carry_unsigned(u64 v) { return {0, v, false, false}; }

template <class T>
__device__ __forceinline__ T element(const void* p, i64 i) {
  return static_cast<const T*>(p)[i];
}

// A thread asks again at every element what all threads were told at the launch: the branch goes
// one way for the whole warp, and costs a few cycles beside a load of hundreds. 15 x 15 pairs of
// dtypes are one kernel so, not 225.
__device__ Carried load_any(DType t, const void* p, i64 i) {
  switch (t) {
    case DType::f64:
      return carry_float(element<double>(p, i));
    case DType::f32:
      return carry_float(double(element<float>(p, i)));
    case DType::f16:
      return carry_float(double(float(element<__half>(p, i))));
    case DType::bf16:
      return carry_float(double(float(element<__nv_bfloat16>(p, i))));
    case DType::f8_e4m3:
      return carry_float(double(detail::e4m3_to_float(element<u8>(p, i))));
    case DType::f8_e5m2:
      return carry_float(double(detail::e5m2_to_float(element<u8>(p, i))));
    case DType::i64:
      return carry_signed(element<i64>(p, i));
    case DType::i32:
      return carry_signed(element<i32>(p, i));
    case DType::i16:
      return carry_signed(element<i16>(p, i));
    case DType::i8:
      return carry_signed(element<i8>(p, i));
    case DType::u64:
      return carry_unsigned(element<u64>(p, i));
    case DType::u32:
      return carry_unsigned(element<u32>(p, i));
    case DType::u16:
      return carry_unsigned(element<u16>(p, i));
    case DType::u8:
      return carry_unsigned(element<u8>(p, i));
    case DType::boolean:
      return carry_unsigned(element<u8>(p, i) != 0);
  }
  return carry_unsigned(0);
}

// One rounding, also from 64-bit integers.
template <class T>
__device__ __forceinline__ T as_float(const Carried& c) {
  return c.is_float ? T(c.f) : c.is_signed ? T(i64(c.i)) : T(c.i);
}
__device__ __forceinline__ float as_narrow(const Carried& c) {
  return c.is_float    ? detail::before_narrowing(c.f)
         : c.is_signed ? detail::before_narrowing(i64(c.i))
                       : detail::before_narrowing(c.i);
}
// Towards zero, clamped to T; `over` is the first power of two beyond T.
template <class T>
__device__ __forceinline__ T as_integer(const Carried& c, double over) {
  if (!c.is_float) return T(c.i);
  constexpr bool kSigned = T(-1) < T(0);
  constexpr T kMax = kSigned ? T(u64(-1) >> (65 - 8 * sizeof(T))) : T(-1);
  constexpr T kMin = kSigned ? T(-kMax - 1) : T(0);
  // The conversion of what does not fit is undefined in C++, and the GPU and x86 differ in it:
  // hence by hand.
  if (c.f != c.f) return T(0);
  if (c.f >= over) return kMax;
  return c.f <= (kSigned ? -over : 0.0) ? kMin : T(c.f);
}

template <class T>
__device__ __forceinline__ void put(void* p, i64 i, T v) {
  static_cast<T*>(p)[i] = v;
}

__device__ void store_any(DType t, void* p, i64 i, const Carried& c) {
  switch (t) {
    case DType::f64:
      return put(p, i, as_float<double>(c));
    case DType::f32:
      return put(p, i, as_float<float>(c));
    case DType::f16:
      return put(p, i, __half(as_narrow(c)));
    case DType::bf16:
      return put(p, i, __nv_bfloat16(as_narrow(c)));
    case DType::f8_e4m3:
      return put(p, i, detail::float_to_e4m3(as_narrow(c)));
    case DType::f8_e5m2:
      return put(p, i, detail::float_to_e5m2(as_narrow(c)));
    case DType::i64:
      return put(p, i, as_integer<i64>(c, 0x1p63));
    case DType::i32:
      return put(p, i, as_integer<i32>(c, 0x1p31));
    case DType::i16:
      return put(p, i, as_integer<i16>(c, 0x1p15));
    case DType::i8:
      return put(p, i, as_integer<i8>(c, 0x1p7));
    case DType::u64:
      return put(p, i, as_integer<u64>(c, 0x1p64));
    case DType::u32:
      return put(p, i, as_integer<u32>(c, 0x1p32));
    case DType::u16:
      return put(p, i, as_integer<u16>(c, 0x1p16));
    case DType::u8:
      return put(p, i, as_integer<u8>(c, 0x1p8));
    case DType::boolean:
      return put(p, i, u8(c.is_float ? c.f != 0 : c.i != 0));
  }
}

template <class Map>
__global__ void __launch_bounds__(kThreads)
    cast_any(void* out, DType to, const void* in, DType from, i64 n, Map map) {
  const i64 i = global_thread();
  if (i >= n) return;
  typename Map::Offset at[2];
  map.offsets(typename Map::Index(i), at);
  // A read and a write at addresses of their own, an element of any size: nothing to put into
  // packs.
  store_any(to, out, at[0], load_any(from, in, at[1]));
}

// --- equal dtypes: bits of one width ---
template <class T, class Map>
__global__ void __launch_bounds__(kThreads) copy_elements(T* out, const T* in, i64 n, Map map) {
  const i64 i = global_thread();
  if (i >= n) return;
  typename Map::Offset at[2];
  // Neighbouring threads take neighbours of the walk, which are mostly neighbours in out. What they
  // read may lie anywhere: 32 sectors of 32 bytes for a warp in the worst case.
  map.offsets(typename Map::Index(i), at);
  // A load, a store and the arithmetic of two offsets: nothing hides here but the strides.
  out[at[0]] = in[at[1]];
}

// A tile of `kTile` elements square; rows of 64 bytes at least, so that each is whole sectors.
template <class T>
constexpr int kTile = sizeof(T) <= 2 ? 64 : 32;
// What shared memory is addressed by: 4 bytes, or one element if that is more.
template <class T>
using TileWord = Pack<T, sizeof(T) < 4 ? 4 / int(sizeof(T)) : 1>;

// out[j * step_out + i] = in[i * step_in + j] for i < n0, j < n1, for each matrix of `outer`, a
// tile a block: both sides are read and written along their rows. `pairs`: two 2-byte elements are
// one access on both sides.
template <class T, class Map>
__global__ void __launch_bounds__(kThreads)
    copy_tiles(T* out, const T* in, i64 n0, i64 n1, u32 tiles0, u32 tiles1, i64 step_out,
               i64 step_in, bool pairs, Map outer) {
  constexpr int kSide = kTile<T>, kWarps = kThreads / 32, kAcross = kSide / 32;
  constexpr int kEach = kSide * kAcross / kWarps, kPerWord = int(sizeof(TileWord<T>) / sizeof(T));
  // The last word of a row is never used. With rows of 32 words a column would lie in one bank, and
  // the transposed read below would be 32 reads, one after the other; with an odd number each
  // element of a column is in another bank.
  WT_SHARED(TileWord<T>, tile, [kSide][kSide / kPerWord + 1]);
  // One block a tile: blockIdx.x counts tiles along out's rows first, then in's, then matrices.
  // Two divisions of 32 bits; in 64 bits they would be more instructions than all of the copy.
  const u32 rows = blockIdx.x / tiles0, matrix = rows / tiles1;
  const i64 i0 = i64(blockIdx.x - rows * tiles0) * kSide, j0 = i64(rows - matrix * tiles1) * kSide;
  typename Map::Offset at[2];
  outer.offsets(typename Map::Index(matrix), at);
  const int x = int(threadIdx.x) % 32, y = int(threadIdx.x) / 32;
  // What the tile has of the matrix. Counted from this thread in 32 bits, addresses go on by
  // additions: a copy is nothing but loads, stores and what finds their places.
  const int height = int(n0 - i0 < kSide ? n0 - i0 : kSide) - y;
  const int width = int(n1 - j0 < kSide ? n1 - j0 : kSide) - y;
  const T* from = in + at[1] + (i0 + y) * step_in + j0;
  const i64 next_in = kWarps * step_in, next_out = kWarps * step_out;
  if (kPerWord == 2 && pairs) {
    // All loads before the first store: 32 bytes a thread under way.
    TileWord<T> v[kEach / 2] = {};
    const bool inside = 2 * x < width + y;
#pragma unroll
    for (int k = 0; k < kEach / 2; ++k, from += next_in)
      if (inside && k * kWarps < height) v[k] = *reinterpret_cast<const TileWord<T>*>(from + 2 * x);
#pragma unroll
    for (int k = 0; k < kEach / 2; ++k) tile[y + k * kWarps][x] = v[k];
  } else {
    // Eight warps: a warp reads 32 neighbours along in's rows, 128 bytes of 4-byte elements.
    T v[kEach] = {};
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int beside = k % kAcross * 32;
      if (k / kAcross * kWarps < height && x + beside < width + y) v[k] = from[x + beside];
      if (k % kAcross == kAcross - 1) from += next_in;
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int row = y + k / kAcross * kWarps, column = x + k % kAcross * 32;
      tile[row][column / kPerWord].v[column % kPerWord] = v[k];
    }
  }
  __syncthreads();
  // Now neighbours along out's rows. The element was loaded by another warp: without the barrier it
  // may not be there yet. Straight from `in`, either the reads or the writes would be 32 sectors a
  // warp.
  T* to = out + at[0] + (j0 + y) * step_out + i0;
  if (kPerWord == 2 && pairs) {
    // Rows 2 x and 2 x + 1 of lanes 16 apart are in one bank: two turns for a read, of half as many
    // stores.
    const bool inside = 2 * x < height + y;
#pragma unroll
    for (int k = 0; k < kEach / 2; ++k, to += next_out) {
      const int column = y + k * kWarps;
      TileWord<T> v;
#pragma unroll
      for (int j = 0; j < kPerWord; ++j)
        v.v[j] = tile[(2 * x + j) % kSide][column / kPerWord].v[column % kPerWord];
      if (inside && k * kWarps < width) *reinterpret_cast<TileWord<T>*>(to + 2 * x) = v;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int beside = k % kAcross * 32, column = y + k / kAcross * kWarps;
      if (k / kAcross * kWarps < width && x + beside < height + y)
        to[x + beside] = tile[x + beside][column / kPerWord].v[column % kPerWord];
      if (k % kAcross == kAcross - 1) to += next_out;
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    copy_bytes(unsigned char* out, const unsigned char* in, i64 n) {
  const i64 i = global_thread() * 16;
  if (i >= n) return;
  if (i + 16 <= n) {
    // One 16-byte access each way, 512 bytes a warp, whatever the elements are: bits are bits.
    unsigned char v[16];
    load_vector(v, in + i);
    store_vector(out + i, v);
  } else {
    for (i64 k = i; k < n; ++k) out[k] = in[k];
  }
}

// --- the casts of training, dense: 8 elements a thread ---
template <class To, class From>
__global__ void __launch_bounds__(kThreads) cast_dense(To* out, const From* in, i64 n) {
  constexpr int kEach = 8;
  const i64 i = global_thread() * kEach;
  if (i >= n) return;
  if (i + kEach <= n) {
    // 8 elements so that the narrower type still moves 16 bytes: f16 to f32 is one load and two
    // stores.
    From from[kEach];
    To to[kEach];
    load_vector(from, in + i);
#pragma unroll
    for (int k = 0; k < kEach; ++k) to[k] = To(float(from[k]));
    store_vector(out + i, to);
  } else {
    // The last thread alone; all others have left by now.
    for (i64 k = i; k < n; ++k) out[k] = To(float(in[k]));
  }
}

// --- launchers ---
template <class T>
void copy_strided(const CopyArgs& a, const LoopNest<2>& nest, const Launch& l) {
  with_index_map(nest, [&](auto map) {
    launch<copy_elements<T, decltype(map)>>(one_thread_each(nest.numel, l), a.out.as<T>(),
                                            a.in.as<T>(), nest.numel, map);
  });
}

void copy_elements_of(const CopyArgs& a, const LoopNest<2>& nest, const Launch& l) {
  switch (item_size(a.out.dtype())) {
    case 1:
      return copy_strided<u8>(a, nest, l);
    case 2:
      return copy_strided<u16>(a, nest, l);
    case 4:
      return copy_strided<u32>(a, nest, l);
    default:
      return copy_strided<u64>(a, nest, l);
  }
}

void copy_naive(const CopyArgs& a, const Launch& l) {
  const LoopNest<2> nest = loop_nest({a.out, a.in});
  if (a.out.dtype() == a.in.dtype()) return copy_elements_of(a, nest, l);
  with_index_map(nest, [&](auto map) {
    launch<cast_any<decltype(map)>>(one_thread_each(nest.numel, l), a.out.data, a.out.dtype(),
                                    a.in.data, a.in.dtype(), nest.numel, map);
  });
}

template <class T>
void copy_transposed(const CopyArgs& a, const LoopNest<2>& nest, const LoopNest<2>& outer,
                     const Launch& l) {
  // 32 x 32 elements by 256 threads: four a thread each way, and 4 KiB of shared memory for 4-byte
  // ones. 64 x 64 of narrower ones: 8 KiB for 2 bytes.
  const i64 n0 = nest.size[0], n1 = nest.size[1];
  const i64 tiles0 = (n0 + kTile<T> - 1) / kTile<T>, tiles1 = (n1 + kTile<T> - 1) / kTile<T>;
  const i64 step_out = nest.stride[0][1], step_in = nest.stride[1][0];
  bool pairs =
      sizeof(T) == 2 && (n0 | n1 | step_out | step_in) % 2 == 0 &&
      (reinterpret_cast<uintptr_t>(a.out.data) | reinterpret_cast<uintptr_t>(a.in.data)) % 4 == 0;
  for (int d = 0; d < outer.ndim; ++d)
    pairs = pairs && (outer.stride[0][d] | outer.stride[1][d]) % 2 == 0;
  Config config = one_thread_each(0, l);
  config.grid = unsigned(tiles0 * tiles1 * outer.numel);
  with_index_map(outer, [&](auto map) {
    launch<copy_tiles<T, decltype(map)>>(config, a.out.as<T>(), a.in.as<T>(), n0, n1, u32(tiles0),
                                         u32(tiles1), step_out, step_in, pairs, map);
  });
}
void copy_transposed_of(const CopyArgs& a, const LoopNest<2>& nest, const LoopNest<2>& outer,
                        const Launch& l) {
  switch (item_size(a.out.dtype())) {
    case 1:
      return copy_transposed<u8>(a, nest, outer, l);
    case 2:
      return copy_transposed<u16>(a, nest, outer, l);
    case 4:
      return copy_transposed<u32>(a, nest, outer, l);
    default:
      return copy_transposed<u64>(a, nest, outer, l);
  }
}

void copy_same_dtype(const CopyArgs& a, LoopNest<2> nest, const Launch& l) {
  LoopNest<2> outer;
  // Tiles with fewer rows than 8 would keep most of a warp idle: the strided kernel is as good
  // then.
  if (as_transposes(nest, outer) && nest.size[0] >= 8 && nest.size[1] >= 8)
    return copy_transposed_of(a, nest, outer, l);
  if (!nest.dense() || !aligned_16(a.out.data) || !aligned_16(a.in.data))
    return copy_elements_of(a, nest, l);
  // Dense and in one order: no index to compute, a copy is bytes.
  const i64 bytes = nest.numel * item_size(a.out.dtype());
  launch<copy_bytes>(one_thread_each((bytes + 15) / 16, l), a.out.as<unsigned char>(),
                     a.in.as<unsigned char>(), bytes);
}

template <class To, class From>
void launch_cast_dense(const CopyArgs& a, i64 n, const Launch& l) {
  launch<cast_dense<To, From>>(one_thread_each((n + 7) / 8, l), a.out.as<To>(), a.in.as<From>(), n);
}

// The pair has a dense kernel of its own.
bool dense_pair(DType to, DType from) {
  // f32, f16 and bf16, six pairs: what mixed precision casts at every step.
  return to != from && (to == DType::f32 || is_half(to)) && (from == DType::f32 || is_half(from));
}
void cast_dense_pair(const CopyArgs& a, i64 n, const Launch& l) {
  const DType to = a.out.dtype(), from = a.in.dtype();
  if (to == DType::f32)
    return from == DType::f16 ? launch_cast_dense<float, __half>(a, n, l)
                              : launch_cast_dense<float, __nv_bfloat16>(a, n, l);
  if (to == DType::f16)
    return from == DType::f32 ? launch_cast_dense<__half, float>(a, n, l)
                              : launch_cast_dense<__half, __nv_bfloat16>(a, n, l);
  return from == DType::f32 ? launch_cast_dense<__nv_bfloat16, float>(a, n, l)
                            : launch_cast_dense<__nv_bfloat16, __half>(a, n, l);
}

void copy_vectorized(const CopyArgs& a, const Launch& l) {
  const LoopNest<2> nest = loop_nest({a.out, a.in}, LoopOrder::memory);
  if (a.out.dtype() == a.in.dtype()) return copy_same_dtype(a, nest, l);
  if (nest.dense() && dense_pair(a.out.dtype(), a.in.dtype()) && aligned_16(a.out.data) &&
      aligned_16(a.in.data))
    return cast_dense_pair(a, nest.numel, l);
  copy_naive(a, l);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, copy, CopyArgs,
            {.name = "vectorized", .rank = 10, .launch = copy_vectorized},
            {.name = "naive", .launch = copy_naive});

}  // namespace wt
