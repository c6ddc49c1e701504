// Sorting and top-k on simt and cuda:
//   naive   one thread an element, which counts the elements before it
//   radix   rows of any length: 8 bits a pass through memory (kernels/sort/radix_sort.cu)
//   select  the first few of a long row: one block finds the last one of them bit by bit, and sorts
//           only what comes before it
//   block   short rows: one block sorts a row in shared memory
// All take every dtype and any strides, and give the same bits: the order is by key, then by place,
// and no two elements are equal in that.
#include "warptape/kernels/sort.h"

#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/index_list.cuh"
#include "warptape/kernels/sort/radix_sort.cuh"
#include "warptape/kernels/sort/sort.cuh"
#include "warptape/kernels/sort/sort_shared.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// From the bits of an element to an unsigned integer in the order of the elements. What dtypes
// differ in is in these numbers, so that kernels are compiled for four sizes and not for eight
// dtypes.
template <class U>
struct KeyOf {
  U sign;  // 0: unsigned
  U inf;   // of floating dtypes the bits of infinity, else 0
  U flip;  // all ones: descending
  __device__ __forceinline__ U operator()(U bits) const {
    const U magnitude = U(bits & U(~sign));
    U key = U(bits ^ sign);
    if (inf) {
      // Negative numbers upside down; of two zeros one; NaN, whatever its sign and bits, last.
      if ((bits & sign) && magnitude) key = U(~bits);
      if (magnitude == 0) key = sign;
      if (magnitude > inf) key = U(~U(0));
    }
    return U(key ^ flip);
  }
};
template <class U>
KeyOf<U> key_of(DType t, bool descending) {
  const U flip = descending ? U(~U(0)) : U(0), top = U(U(1) << (8 * sizeof(U) - 1));
  switch (t) {
    case DType::u8:
    case DType::boolean:
      return {0, 0, flip};
    case DType::i32:
    case DType::i64:
      return {top, 0, flip};
    case DType::f16:
      return {top, U(0x7c00), flip};
    case DType::bf16:
      return {top, U(0x7f80), flip};
    case DType::f32:
      return {top, U(0x7f800000), flip};
    default:
      return {top, U(0x7ff0000000000000ull), flip};
  }
}

// U moves the bytes of one element.
template <class U>
struct SortRows {
  enum { Indices, Values };  // the operands of `out`
  Rows<1> in;
  Rows<2> out;
  const U* from;
  i64* indices;
  U* values;  // null: not wanted
  KeyOf<U> key;
  template <class F>
  void visit_pointers(F&& f) const {
    f(from), f(indices), f(values);
  }
  // Element i of the sorted row is the one at `place`.
  __device__ __forceinline__ void put(i64 row, i64 i, i64 place, const RowOf<const U>& x) const {
    out.row(Indices, indices, row)[i] = place;
    if (values) out.row(Values, values, row)[i] = x[place];
  }
};

template <class U>
SortRows<U> sort_args(const SortArgs& a) {
  return {rows_along<1>(a.axis, {{a.in}}),
          rows_along<2>(a.axis, {{a.indices}, {a.values ? a.values : a.indices}}),
          a.in.as<const U>(),
          a.indices.as<i64>(),
          a.values ? a.values.as<U>() : nullptr,
          key_of<U>(a.in.dtype(), a.descending)};
}
inline bool nothing_to_sort(const SortArgs& a) {
  return a.in.numel() == 0 || a.indices.numel() == 0;
}
inline i64 row_length(const SortArgs& a) { return a.in.ndim() ? a.in.size(a.axis) : 1; }
inline i64 wanted_of(const SortArgs& a) { return a.indices.ndim() ? a.indices.size(a.axis) : 1; }
inline i64 row_count(const SortArgs& a) {
  return a.in.numel() == 0 ? 0 : a.in.numel() / row_length(a);
}

// --- naive ---

template <class U>
__global__ void __launch_bounds__(128) sort_naive(SortRows<U> a) {
  const i64 stride = i64(gridDim.x) * blockDim.x, n = a.in.count * a.in.length;
  for (i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x; e < n; e += stride) {
    const i64 row = e / a.in.length, i = e % a.in.length;
    const auto x = a.in.row(0, a.from, row);
    const U own = a.key(x[i]);
    // How many come before it is where it goes: no thread waits for another one, and equal elements
    // keep their order. But a row of n is read n times, by warps that read one address together.
    i64 before = 0;
    for (i64 j = 0; j < a.in.length; ++j) {
      const U other = a.key(x[j]);
      before += other < own || (other == own && j < i);
    }
    if (before < a.out.length) a.put(row, before, i, x);
  }
}

// --- block ---

template <class U>
constexpr i64 kBlockLongest = kPairs<U> ? 2048 : 4096;
constexpr i64 kBlockThreads = 512;

inline i64 padded_length(i64 n) {
  i64 padded = 64;
  while (padded < n) padded *= 2;
  return padded;
}
inline i64 block_threads(i64 padded) {
  return padded / 2 < kBlockThreads ? padded / 2 : kBlockThreads;
}
template <class U>
constexpr i64 kSharedItem = kPairs<U> ? 12 : 8;

template <class U>
__global__ void __launch_bounds__(kBlockThreads) sort_block(SortRows<U> a, u32 padded) {
  WT_DYN_SHARED(u64, e);
  u32* const at = reinterpret_cast<u32*>(e + padded);
  const u32 n = u32(a.in.length), wanted = u32(a.out.length);
  for (i64 row = blockIdx.x; row < a.in.count; row += gridDim.x) {
    const auto x = a.in.row(0, a.from, row);
    for (u32 i = threadIdx.x; i < padded; i += blockDim.x)
      if (i < n)
        put_shared<U>(e, at, i, a.key(x[i]), i);
      else
        pad_shared<U>(e, at, i);
    __syncthreads();
    // Memory sees the row once, in a row where the axis is the innermost one; the n log^2 n steps
    // are shared memory's.
    sort_shared<kPairs<U>>(e, at, padded);
    // Keys do not tell -0 from 0 or one NaN from another: values are read again, from the caches.
    for (u32 i = threadIdx.x; i < wanted; i += blockDim.x)
      a.put(row, i, place_in_shared<U>(e, at, i), x);
    __syncthreads();  // the next row is written over this one
  }
}

// --- select ---

constexpr i64 kSelectMost = 1024, kSelectLongest = 1 << 20;

template <class U>
__global__ void __launch_bounds__(kBlockThreads) sort_select(SortRows<U> a, u32 padded) {
  WT_DYN_SHARED(u64, e);
  u32* const at = reinterpret_cast<u32*>(e + padded);
  WT_SHARED(u32, count, [kDigits]);
  WT_SHARED(u32, found, [3]);  // a digit, how many elements come before it, how many have it
  WT_SHARED(u32, filled, );
  WT_SHARED(u32, votes, [kBlockThreads / 32]);
  const u32 t = threadIdx.x, lane = t % 32, warp = t / 32, threads = blockDim.x;
  const u32 n = u32(a.in.length), wanted = u32(a.out.length);
  for (i64 row = blockIdx.x; row < a.in.count; row += gridDim.x) {
    const auto x = a.in.row(0, a.from, row);
    // The key of the last one wanted, a digit at a time from the highest: of the elements that
    // agree with it so far, those with smaller digits come before it. Four readings of a row of
    // f32, of which only `wanted` elements are then moved.
    U last = 0, known = 0;
    u32 rest = wanted;  // of the elements that agree
    for (int shift = 8 * int(sizeof(U)) - 8; shift >= 0; shift -= 8) {
      for (u32 d = t; d < kDigits; d += threads) count[d] = 0;
      __syncthreads();
      for (u32 i = t; i < n; i += threads) {
        const U key = a.key(x[i]);
        if ((key & known) == last) atomicAdd(&count[u32(key >> shift) & 255], 1u);
      }
      __syncthreads();
      if (warp == 0) {
        // Eight digits a lane.
        u32 sum = 0;
        for (u32 d = 0; d < 8; ++d) sum += count[lane * 8 + d];
        u32 up_to = sum;
        for (u32 d = 1; d < 32; d *= 2) {
          const u32 below = __shfl_up_sync(kAllLanes, up_to, d);
          if (lane >= d) up_to += below;
        }
        u32 before = up_to - sum;
        if (before < rest && rest <= up_to) {  // one lane
          u32 d = lane * 8;
          while (before + count[d] < rest) before += count[d++];
          found[0] = d, found[1] = before, found[2] = count[d];
        }
      }
      __syncthreads();
      last = U(last | U(U(found[0]) << shift));
      known = U(known | U(U(255) << shift));
      rest -= found[1];
    }
    const u32 equal = found[2], less = wanted - rest;
    for (u32 i = wanted + t; i < padded; i += threads) pad_shared<U>(e, at, i);
    if (t == 0) filled = 0;
    __syncthreads();
    if (equal == rest) {
      // All that are not greater, in any order: they are sorted afterwards.
      for (u32 i = t; i < n; i += threads) {
        const U key = a.key(x[i]);
        if (key <= last) put_shared<U>(e, at, atomicAdd(&filled, 1u), key, i);
      }
    } else {
      // More equal ones than there is room for: of them the first ones, so they are counted in the
      // order of the row.
      u32 taken = 0;
      for (u32 begin = 0; begin < n; begin += threads) {
        const u32 i = begin + t;
        const U key = i < n ? a.key(x[i]) : U(0);
        if (i < n && key < last) put_shared<U>(e, at, atomicAdd(&filled, 1u), key, i);
        const unsigned vote = __ballot_sync(kAllLanes, i < n && key == last);
        if (lane == 0) votes[warp] = u32(__popc(vote));
        __syncthreads();
        u32 before = taken + u32(__popc(vote & ((1u << lane) - 1)));
        for (u32 w = 0; w < threads / 32; ++w) {
          if (w < warp) before += votes[w];
          taken += votes[w];
        }
        if ((vote >> lane & 1) && before < rest) put_shared<U>(e, at, less + before, key, i);
        __syncthreads();
      }
    }
    __syncthreads();
    sort_shared<kPairs<U>>(e, at, padded);
    for (u32 i = t; i < wanted; i += threads) a.put(row, i, place_in_shared<U>(e, at, i), x);
    __syncthreads();
  }
}

// --- radix ---

template <class U, class K>
__global__ void __launch_bounds__(256) sort_keys(SortRows<U> a, K* keys) {
  const i64 stride = i64(gridDim.x) * blockDim.x, n = a.in.count * a.in.length;
  for (i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x; e < n; e += stride) {
    // 32-bit division is some ten instructions, 64-bit one dozens.
    const i64 row = n <= 0xffffffffll ? i64(u32(e) / u32(a.in.length)) : e / a.in.length;
    keys[e] = K(a.key(a.in.row(0, a.from, row)[e - row * a.in.length]));
  }
}
template <class U>
__global__ void __launch_bounds__(256) sort_results(SortRows<U> a, const u32* places) {
  const i64 stride = i64(gridDim.x) * blockDim.x, k = a.out.length, n = a.out.count * k;
  for (i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x; e < n; e += stride) {
    const i64 row = n <= 0xffffffffll ? i64(u32(e) / u32(k)) : e / k, i = e - row * k;
    // The values are read from anywhere in the row, 32 bytes for each: what carrying them through
    // the passes would cost, once.
    a.put(row, i, places[row * a.in.length + i], a.in.row(0, a.from, row));
  }
}

template <class U>
using RadixKey = std::conditional_t<sizeof(U) == 8, u64, u32>;

// --- choice and launch ---

template <class F>
void with_key(const SortArgs& a, F f) {
  if (nothing_to_sort(a)) return;
  with_unit(item_size(a.in.dtype()), f);
}

void launch_naive(const SortArgs& a, const Launch& l) {
  with_key(a, [&](auto tag) {
    using U = typename decltype(tag)::type;
    launch<sort_naive<U>>(grid_of(l, ceil_div(a.in.numel(), 128), 128), sort_args<U>(a));
  });
}

const char* why_not_block(const SortArgs& a) {
  if (item_size(a.in.dtype()) == 8)
    return row_length(a) <= kBlockLongest<u64> ? nullptr : "rows of at most 2048 elements";
  return row_length(a) <= kBlockLongest<u32> ? nullptr : "rows of at most 4096 elements";
}
void launch_block(const SortArgs& a, const Launch& l) {
  const i64 padded = padded_length(row_length(a));
  with_key(a, [&](auto tag) {
    using U = typename decltype(tag)::type;
    launch<sort_block<U>>(grid_of(l, row_count(a), block_threads(padded), padded * kSharedItem<U>),
                          sort_args<U>(a), u32(padded));
  });
}

const char* why_not_select(const SortArgs& a) {
  if (wanted_of(a) > kSelectMost) return "the first 1024 elements at most";
  if (row_length(a) > kSelectLongest) return "rows of at most 2^20 elements: a block has each";
  return nullptr;
}
void launch_select(const SortArgs& a, const Launch& l) {
  const i64 padded = padded_length(wanted_of(a));
  with_key(a, [&](auto tag) {
    using U = typename decltype(tag)::type;
    launch<sort_select<U>>(grid_of(l, row_count(a), block_threads(padded_length(row_length(a))),
                                   padded * kSharedItem<U>),
                           sort_args<U>(a), u32(padded));
  });
}

const char* why_not_radix(const SortArgs& a) {
  return item_size(a.in.dtype()) == 8 ? RadixSort<u64>::why_not(row_count(a), row_length(a))
                                      : RadixSort<u32>::why_not(row_count(a), row_length(a));
}
i64 radix_workspace(const SortArgs& a) {
  if (nothing_to_sort(a)) return 0;
  return item_size(a.in.dtype()) == 8 ? RadixSort<u64>::workspace(row_count(a), row_length(a))
                                      : RadixSort<u32>::workspace(row_count(a), row_length(a));
}
void launch_radix(const SortArgs& a, const Launch& l) {
  with_key(a, [&](auto tag) {
    using U = typename decltype(tag)::type;
    using K = RadixKey<U>;
    const SortRows<U> k = sort_args<U>(a);
    RadixSort<K> s(l.workspace, row_count(a), row_length(a));
    launch<sort_keys<U, K>>(grid_of(l, ceil_div(a.in.numel(), 256), 256), k, s.keys);
    radix_sort(s, int(sizeof(U)), l);
    launch<sort_results<U>>(grid_of(l, ceil_div(a.indices.numel(), 256), 256), k, s.places);
  });
}

}  // namespace

i64 sort_workspace(const SortArgs& a) {
  const bool others = !why_not_block(a) || !why_not_select(a) || why_not_radix(a);
  return others ? 0 : radix_workspace(a);
}
void launch_sort(const SortArgs& a, const Launch& l) {
  if (!why_not_block(a)) return launch_block(a, l);
  if (!why_not_select(a)) return launch_select(a, l);
  if (!why_not_radix(a)) return launch_radix(a, l);
  launch_naive(a, l);
}
void launch_sort_naive(const SortArgs& a, const Launch& l) { launch_naive(a, l); }

}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, sort, SortArgs,
            {.name = "block", .rank = 40, .why_not = why_not_block, .launch = launch_block},
            {.name = "select", .rank = 30, .why_not = why_not_select, .launch = launch_select},
            {.name = "radix",
             .rank = 20,
             .why_not = why_not_radix,
             .workspace = radix_workspace,
             .launch = launch_radix},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
