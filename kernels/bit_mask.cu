// Bits of relu's output on simt and cuda.
//   naive   one thread a byte: it walks eight elements
//   ballot  one thread an element: a warp reads neighbours and votes its 32 bits
//   vectorized  one thread a byte again, its eight elements in 16-byte accesses
#include "warptape/kernels/bit_mask.h"

#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr i64 kThreads = 128;

template <class S>
__device__ __forceinline__ bool passes(S x) {
  // Not x > 0: a NaN passes, as it does through relu.
  return !(ComputeType<S>(x) <= ComputeType<S>(0));
}

template <class S>
__global__ void __launch_bounds__(kThreads) bit_pack_naive(const S* in, u8* bits, i64 n) {
  const i64 stride = i64(gridDim.x) * blockDim.x, bytes = (n + 7) / 8;
  for (i64 b = i64(blockIdx.x) * blockDim.x + threadIdx.x; b < bytes; b += stride) {
    // Each thread reads 8 elements of its own, a lane 32 bytes (f32) from the next: every load of
    // the warp touches 32 sectors, though the eight loads together use all of what they bring.
    u32 byte = 0;
    for (int k = 0; k < 8; ++k)
      if (8 * b + k < n && passes(in[8 * b + k])) byte |= 1u << k;
    bits[b] = u8(byte);
  }
}

// Blocks of whole warps; the loop's bound is the same for a warp.
template <class S>
__global__ void __launch_bounds__(kThreads) bit_pack_ballot(const S* in, u8* bits, i64 n) {
  const i64 stride = i64(gridDim.x) * blockDim.x, whole = (n + 31) / 32 * 32, bytes = (n + 7) / 8;
  const u32 lane = threadIdx.x % 32;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < whole; i += stride) {
    // One instruction gathers 32 predicates into a register that all lanes get. The load before it
    // is 128 bytes in a row. All 32 lanes must be here, hence `whole`: lanes past n vote 0 and read
    // element 0.
    const unsigned word = __ballot_sync(0xffffffffu, i < n && passes(in[i < n ? i : 0]));
    const i64 byte = i / 32 * 4 + lane;  // lanes 0 to 3 write a byte each
    if (lane < 4 && byte < bytes) bits[byte] = u8(word >> 8 * lane);
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads) bit_unpack_naive(const u8* bits, S* out, i64 n) {
  const i64 stride = i64(gridDim.x) * blockDim.x, bytes = (n + 7) / 8;
  for (i64 b = i64(blockIdx.x) * blockDim.x + threadIdx.x; b < bytes; b += stride) {
    const u32 byte = bits[b];
    // Stores of a warp are 8 elements apart; together the eight fill whole sectors in L2.
    for (int k = 0; k < 8 && 8 * b + k < n; ++k) out[8 * b + k] = S(float(byte >> k & 1));
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads) bit_unpack_elements(const u8* bits, S* out, i64 n) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
    // Eight lanes read one byte, a warp four bytes of one sector, and it writes 32 neighbours.
    out[i] = S(float(bits[i / 8] >> (i % 8) & 1));
}

// The eight elements of a byte, 16 or 32 bytes.
template <class S>
struct ByteElements {
  Pack16<S> pack[8 / kPerPack<S>];
};

template <class S>
__global__ void __launch_bounds__(kThreads) bit_pack_vectorized(const S* in, u8* bits, i64 n) {
  constexpr int kSize = kPerPack<S>, kAhead = 2;
  const i64 stride = i64(gridDim.x) * blockDim.x, whole = n / 8;
  const i64 first = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto load = [&](i64 b) WT_INLINE_LAMBDA {
    ByteElements<S> e;
#pragma unroll
    for (int k = 0; k < 8 / kSize; ++k) e.pack[k] = vload<Pack16<S>>(in + 8 * b + k * kSize);
    return e;
  };
  const auto store = [&](i64 b, const ByteElements<S>& e) WT_INLINE_LAMBDA {
    u32 byte = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) byte |= u32(passes(e.pack[k / kSize].v[k % kSize])) << k;
    bits[b] = u8(byte);
  };
  // 32 (16-bit) or 64 bytes a thread under way; a ballot has an element. And a vote, a shift and a
  // store for 32 elements become as many for 8 in each of 32 lanes, which is 8 times fewer.
  i64 b = first;
  for (; b + (kAhead - 1) * stride < whole; b += kAhead * stride) {
    ByteElements<S> e[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) e[k] = load(b + k * stride);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) store(b + k * stride, e[k]);
  }
  if (b < whole) store(b, load(b));
  if (first != 0 || whole * 8 == n) return;
  u32 byte = 0;  // fewer than eight elements
  for (int k = 0; whole * 8 + k < n; ++k) byte |= u32(passes(in[whole * 8 + k])) << k;
  bits[whole] = u8(byte);
}

template <class S>
__global__ void __launch_bounds__(kThreads) bit_unpack_vectorized(const u8* bits, S* out, i64 n) {
  constexpr int kSize = kPerPack<S>;
  const i64 stride = i64(gridDim.x) * blockDim.x, whole = n / 8;
  const i64 first = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  // Nearly all that moves is written, and nobody waits for stores.
  for (i64 b = first; b < whole; b += stride) {
    const u32 byte = bits[b];
#pragma unroll
    for (int k = 0; k < 8; k += kSize) {
      Pack16<S> pack;
#pragma unroll
      for (int j = 0; j < kSize; ++j) pack.v[j] = S(float(byte >> (k + j) & 1));
      vstore(out + 8 * b + k, pack);
    }
  }
  if (first == 0)
    for (i64 i = whole * 8; i < n; ++i) out[i] = S(float(bits[whole] >> (i % 8) & 1));
}

const char* why_not_packs(const View& floats) {
  if (floats.dtype() == DType::f64) return "f64 has the rungs below only";
  return aligned_16(floats.data) ? nullptr : "the floats must begin at a 16-byte boundary";
}
void launch_pack_vectorized(const BitPackArgs& a, const Launch& l) {
  const i64 n = a.in.numel();
  if (n == 0) return;
  with_float(a.in.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    launch<bit_pack_vectorized<S>>(grid_of(l, ceil_div(n, 16 * kThreads), kThreads),
                                   a.in.as<const S>(), a.bits.as<u8>(), n);
  });
}
void launch_unpack_vectorized(const BitUnpackArgs& a, const Launch& l) {
  const i64 n = a.out.numel();
  if (n == 0) return;
  with_float(a.out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    launch<bit_unpack_vectorized<S>>(grid_of(l, ceil_div(n, 8 * kThreads), kThreads),
                                     a.bits.as<const u8>(), a.out.as<S>(), n);
  });
}

template <bool kNaive>
void launch_pack(const BitPackArgs& a, const Launch& l) {
  const i64 n = a.in.numel();
  if (n == 0) return;
  with_float_or_double(a.in.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    const Config grid = grid_of(l, ceil_div(n, kNaive ? 8 * kThreads : kThreads), kThreads);
    if constexpr (kNaive)
      launch<bit_pack_naive<S>>(grid, a.in.as<const S>(), a.bits.as<u8>(), n);
    else
      launch<bit_pack_ballot<S>>(grid, a.in.as<const S>(), a.bits.as<u8>(), n);
  });
}
template <bool kNaive>
void launch_unpack(const BitUnpackArgs& a, const Launch& l) {
  const i64 n = a.out.numel();
  if (n == 0) return;
  with_float_or_double(a.out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    const Config grid = grid_of(l, ceil_div(n, kNaive ? 8 * kThreads : kThreads), kThreads);
    if constexpr (kNaive)
      launch<bit_unpack_naive<S>>(grid, a.bits.as<const u8>(), a.out.as<S>(), n);
    else
      launch<bit_unpack_elements<S>>(grid, a.bits.as<const u8>(), a.out.as<S>(), n);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, bit_pack, BitPackArgs,
            {.name = "vectorized",
             .rank = 20,
             .why_not = [](const BitPackArgs& a) { return why_not_packs(a.in); },
             .launch = launch_pack_vectorized},
            {.name = "ballot", .rank = 10, .launch = launch_pack<false>},
            {.name = "naive", .launch = launch_pack<true>});
WT_VARIANTS(WT_DEVICE_NS, bit_unpack, BitUnpackArgs,
            {.name = "vectorized",
             .rank = 20,
             .why_not = [](const BitUnpackArgs& a) { return why_not_packs(a.out); },
             .launch = launch_unpack_vectorized},
            {.name = "elements", .rank = 10, .launch = launch_unpack<false>},
            {.name = "naive", .launch = launch_unpack<true>});

}  // namespace wt
