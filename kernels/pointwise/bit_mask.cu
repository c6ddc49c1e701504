// Bits of relu's output on simt and cuda.
//   naive   one thread a byte: it walks eight elements (bit_pack)
//   ballot  one thread an element: a warp reads neighbours and votes its 32 bits (bit_pack)
//   elements  one thread an element (bit_gate)
//   vectorized  one thread a byte, its eight elements in 16-byte accesses
#include "warptape/kernels/bit_mask.h"

#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr i64 kThreads = 128;

// Whether a bit is set.
template <class S>
struct Above {
  ComputeType<S> bound;
  bool nan;
  __device__ __forceinline__ bool operator()(S x) const {
    const auto v = ComputeType<S>(x);
    return v > bound || (nan && v != v);
  }
};
template <class S>
Above<S> above(const BitPackArgs& a) {
  return {ComputeType<S>(a.above), a.nan};
}

template <class S>
__global__ void __launch_bounds__(kThreads)
    bit_pack_naive(const S* in, u8* bits, i64 n, Above<S> set) {
  const i64 stride = i64(gridDim.x) * blockDim.x, bytes = (n + 7) / 8;
  for (i64 b = i64(blockIdx.x) * blockDim.x + threadIdx.x; b < bytes; b += stride) {
    // Each thread reads 8 elements of its own, a lane 32 bytes (f32) from the next: every load of
    // the warp touches 32 sectors, though the eight loads together use all of what they bring.
    u32 byte = 0;
    for (int k = 0; k < 8; ++k)
      if (8 * b + k < n && set(in[8 * b + k])) byte |= 1u << k;
    bits[b] = u8(byte);
  }
}

// Blocks of whole warps; the loop's bound is the same for a warp.
template <class S>
__global__ void __launch_bounds__(kThreads)
    bit_pack_ballot(const S* in, u8* bits, i64 n, Above<S> set) {
  const i64 stride = i64(gridDim.x) * blockDim.x, whole = (n + 31) / 32 * 32, bytes = (n + 7) / 8;
  const u32 lane = threadIdx.x % 32;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < whole; i += stride) {
    // One instruction gathers 32 predicates into a register that all lanes get. The load before it
    // is 128 bytes in a row. All 32 lanes must be here, hence `whole`: lanes past n vote 0 and read
    // element 0.
    const unsigned word = __ballot_sync(0xffffffffu, i < n && set(in[i < n ? i : 0]));
    const i64 byte = i / 32 * 4 + lane;  // lanes 0 to 3 write a byte each
    if (lane < 4 && byte < bytes) bits[byte] = u8(word >> 8 * lane);
  }
}

// The gradient of one element.
template <class S>
struct Gate {
  ComputeType<S> slope;
  bool leaky;
  __device__ __forceinline__ S operator()(S gy, u32 passes) const {
    if (passes) return gy;
    return leaky ? S(ComputeType<S>(gy) * slope) : S(ComputeType<S>(0));
  }
};

template <class S>
__global__ void __launch_bounds__(kThreads)
    bit_gate_elements(const u8* bits, const S* gy, S* out, i64 n, Gate<S> gate) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
    // Eight lanes read one byte, a warp four bytes of one sector and 32 neighbours of gy.
    out[i] = gate(gy[i], bits[i / 8] >> (i % 8) & 1);
}

// The eight elements of a byte, 16 or 32 bytes.
template <class S>
struct ByteElements {
  Pack16<S> pack[8 / kPerPack<S>];
};
template <class S>
__device__ __forceinline__ ByteElements<S> load_elements(const S* in, i64 byte) {
  constexpr int kSize = kPerPack<S>;
  ByteElements<S> e;
#pragma unroll
  for (int k = 0; k < 8 / kSize; ++k) e.pack[k] = vload<Pack16<S>>(in + 8 * byte + k * kSize);
  return e;
}

template <class S>
__global__ void __launch_bounds__(kThreads)
    bit_pack_vectorized(const S* in, u8* bits, i64 n, Above<S> set) {
  constexpr int kSize = kPerPack<S>, kAhead = 2;
  const i64 stride = i64(gridDim.x) * blockDim.x, whole = n / 8;
  const i64 first = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto store = [&](i64 b, const ByteElements<S>& e) WT_INLINE_LAMBDA {
    u32 byte = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) byte |= u32(set(e.pack[k / kSize].v[k % kSize])) << k;
    bits[b] = u8(byte);
  };
  // 32 (16-bit) or 64 bytes a thread under way; a ballot has an element. And a vote, a shift and a
  // store for 32 elements become as many for 8 in each of 32 lanes, which is 8 times fewer.
  i64 b = first;
  for (; b + (kAhead - 1) * stride < whole; b += kAhead * stride) {
    ByteElements<S> e[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) e[k] = load_elements(in, b + k * stride);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) store(b + k * stride, e[k]);
  }
  if (b < whole) store(b, load_elements(in, b));
  if (first != 0 || whole * 8 == n) return;
  u32 byte = 0;  // fewer than eight elements
  for (int k = 0; whole * 8 + k < n; ++k) byte |= u32(set(in[whole * 8 + k])) << k;
  bits[whole] = u8(byte);
}

template <class S>
__global__ void __launch_bounds__(kThreads)
    bit_gate_vectorized(const u8* bits, const S* gy, S* out, i64 n, Gate<S> gate) {
  constexpr int kSize = kPerPack<S>, kAhead = 2;
  const i64 stride = i64(gridDim.x) * blockDim.x, whole = n / 8;
  const i64 first = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto store = [&](i64 b, ByteElements<S> e, u32 byte) WT_INLINE_LAMBDA {
#pragma unroll
    for (int k = 0; k < 8 / kSize; ++k) {
#pragma unroll
      for (int j = 0; j < kSize; ++j)
        e.pack[k].v[j] = gate(e.pack[k].v[j], byte >> (k * kSize + j) & 1);
      vstore(out + 8 * b + k * kSize, e.pack[k]);
    }
  };
  // As in packing: 34 (16-bit) or 66 bytes a thread under way. out may be gy: a thread has read
  // what it writes over.
  i64 b = first;
  for (; b + (kAhead - 1) * stride < whole; b += kAhead * stride) {
    ByteElements<S> e[kAhead];
    u32 byte[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      e[k] = load_elements(gy, b + k * stride);
      byte[k] = bits[b + k * stride];
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) store(b + k * stride, e[k], byte[k]);
  }
  if (b < whole) store(b, load_elements(gy, b), bits[b]);
  if (first == 0)
    for (i64 i = whole * 8; i < n; ++i) out[i] = gate(gy[i], bits[whole] >> (i % 8) & 1);
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
                                   a.in.as<const S>(), a.bits.as<u8>(), n, above<S>(a));
  });
}
const char* why_not_gate(const BitGateArgs& a) {
  if (const char* why = why_not_packs(a.out)) return why;
  return why_not_packs(a.gy);
}
template <bool kPacks>
void launch_gate(const BitGateArgs& a, const Launch& l) {
  const i64 n = a.out.numel();
  if (n == 0) return;
  const auto start = [&](auto tag) {
    using S = typename decltype(tag)::type;
    const Gate<S> gate{ComputeType<S>(a.slope), a.leaky};
    if constexpr (kPacks)
      launch<bit_gate_vectorized<S>>(grid_of(l, ceil_div(n, 16 * kThreads), kThreads),
                                     a.bits.as<const u8>(), a.gy.as<const S>(), a.out.as<S>(), n,
                                     gate);
    else
      launch<bit_gate_elements<S>>(grid_of(l, ceil_div(n, kThreads), kThreads),
                                   a.bits.as<const u8>(), a.gy.as<const S>(), a.out.as<S>(), n,
                                   gate);
  };
  if constexpr (kPacks)
    with_float(a.out.dtype(), start);
  else
    with_float_or_double(a.out.dtype(), start);
}

template <bool kNaive>
void launch_pack(const BitPackArgs& a, const Launch& l) {
  const i64 n = a.in.numel();
  if (n == 0) return;
  with_float_or_double(a.in.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    const Config grid = grid_of(l, ceil_div(n, kNaive ? 8 * kThreads : kThreads), kThreads);
    if constexpr (kNaive)
      launch<bit_pack_naive<S>>(grid, a.in.as<const S>(), a.bits.as<u8>(), n, above<S>(a));
    else
      launch<bit_pack_ballot<S>>(grid, a.in.as<const S>(), a.bits.as<u8>(), n, above<S>(a));
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
WT_VARIANTS(
    WT_DEVICE_NS, bit_gate, BitGateArgs,
    {.name = "vectorized", .rank = 20, .why_not = why_not_gate, .launch = launch_gate<true>},
    {.name = "elements", .rank = 10, .launch = launch_gate<false>});

}  // namespace wt
