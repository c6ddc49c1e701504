// Counting and drawing on simt and cuda. Counts:
//   naive    one thread a bin, each reading the whole list
//   atomics  of integers, where order is nothing to the result; in shared memory if the bins fit
//   sorted   sums of weights: a stable sort of the list by bin leaves each bin's elements in the
//            order of the list, and one thread adds them
// Draws by weight:
//   naive    one thread a row for the running sum; the waiting times in order by naive's sort
//   block    one block a row; the times in order by the best sort
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/sort/radix_sort.cuh"
#include "warptape/kernels/sort/sort.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr i64 kThreads = 128;

// Elements of a floating dtype, in f64. All threads go the same way: a kernel per dtype would be
// four times the code for what waits for memory.
struct Weights {
  const void* at;
  DType dtype;
  __device__ __forceinline__ double operator[](i64 i) const {
    switch (dtype) {
      case DType::f64:
        return static_cast<const double*>(at)[i];
      case DType::f32:
        return double(static_cast<const float*>(at)[i]);
      case DType::f16:
        return double(float(static_cast<const __half*>(at)[i]));
      default:
        return double(float(static_cast<const __nv_bfloat16*>(at)[i]));
    }
  }
};

// --- bincount ---

struct Bincount {
  const void* in;
  i64 item, in_step;  // bytes of an element, elements from one to the next
  bool weighted;
  Weights weights;  // of an empty list without an address
  i64 weight_step;
  void* out;
  i64 n, bins;
  const u32 *keys, *places;  // of `sorted`
  template <class F>
  void visit_pointers(F&& f) const {
    f(in), f(weights.at), f(out), f(keys), f(places);
  }
  __device__ __forceinline__ i64 bin(i64 i) const {
    const i64 at = i * in_step;
    return item == 8   ? static_cast<const i64*>(in)[at]
           : item == 4 ? i64(static_cast<const i32*>(in)[at])
                       : i64(static_cast<const u8*>(in)[at]);
  }
  __device__ __forceinline__ double weight(i64 i) const { return weights[i * weight_step]; }
  __device__ __forceinline__ void put(i64 b, double sum) const {
    switch (weights.dtype) {
      case DType::f64:
        static_cast<double*>(out)[b] = sum;
        break;
      case DType::f32:
        static_cast<float*>(out)[b] = float(sum);
        break;
      case DType::f16:
        static_cast<__half*>(out)[b] = __half(float(sum));
        break;
      default:
        static_cast<__nv_bfloat16*>(out)[b] = __nv_bfloat16(float(sum));
    }
  }
};

__global__ void __launch_bounds__(kThreads) bincount_naive(Bincount a) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 b = i64(blockIdx.x) * blockDim.x + threadIdx.x; b < a.bins; b += stride) {
    // In the order of the list, as the contract says, and without a conflict. The list is read
    // bins / 32 times.
    if (a.weighted) {
      double sum = 0;
      for (i64 i = 0; i < a.n; ++i)
        if (a.bin(i) == b) sum += a.weight(i);
      a.put(b, sum);
    } else {
      i64 count = 0;
      for (i64 i = 0; i < a.n; ++i) count += a.bin(i) == b;
      static_cast<i64*>(a.out)[b] = count;
    }
  }
}

__global__ void __launch_bounds__(kThreads) bincount_clear(i64* out, i64 bins) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 b = i64(blockIdx.x) * blockDim.x + threadIdx.x; b < bins; b += stride) out[b] = 0;
}

constexpr i64 kSharedBins = 4096, kCountThreads = 512;

// `shared`: a block counts its part of the list beside the processor, and adds what it found to the
// result once a bin. A list with few bins would otherwise send all blocks to the same few places of
// memory. A block's part must stay below 2^32 elements.
__global__ void __launch_bounds__(kCountThreads) bincount_atomics(Bincount a, bool shared) {
  WT_SHARED(u32, own, [kSharedBins]);
  auto* const out = static_cast<unsigned long long*>(a.out);
  const i64 stride = i64(gridDim.x) * blockDim.x,
            first = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (shared) {
    for (u32 b = threadIdx.x; b < u32(a.bins); b += blockDim.x) own[b] = 0;
    __syncthreads();
    for (i64 i = first; i < a.n; i += stride) {
      const i64 b = a.bin(i);
      if (b >= 0 && b < a.bins) atomicAdd(&own[b], 1u);
    }
    __syncthreads();
    for (u32 b = threadIdx.x; b < u32(a.bins); b += blockDim.x)
      if (own[b]) atomicAdd(&out[b], static_cast<unsigned long long>(own[b]));
  } else {
    for (i64 i = first; i < a.n; i += stride) {
      const i64 b = a.bin(i);
      if (b >= 0 && b < a.bins) atomicAdd(&out[b], 1ull);
    }
  }
}

__global__ void __launch_bounds__(kThreads) bincount_keys(Bincount a, u32* keys) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < a.n; i += stride) {
    const i64 b = a.bin(i);
    keys[i] = b < 0 || b >= a.bins ? u32(a.bins) : u32(b);
  }
}

// The first of n ascending keys that is not below `key`.
__device__ __forceinline__ i64 first_not_below(const u32* keys, i64 n, u32 key) {
  i64 begin = 0;
  while (n > 0) {
    const i64 half = n / 2;
    if (keys[begin + half] < key)
      begin += half + 1, n -= half + 1;
    else
      n = half;
  }
  return begin;
}

__global__ void __launch_bounds__(kThreads) bincount_sorted(Bincount a) {
  const i64 stride = i64(gridDim.x) * blockDim.x;
  for (i64 b = i64(blockIdx.x) * blockDim.x + threadIdx.x; b < a.bins; b += stride) {
    const i64 begin = first_not_below(a.keys, a.n, u32(b));
    double sum = 0;
    // One after the other, for the order of a sum is the contract's: a bin that has most of the
    // list is the work of one thread.
    for (i64 k = begin; k < a.n && a.keys[k] == u32(b); ++k) sum += a.weight(a.places[k]);
    a.put(b, sum);
  }
}

Bincount count_args(const BincountArgs& a) {
  Bincount k{};
  k.in = a.in.data;
  k.item = item_size(a.in.dtype());
  k.in_step = a.in.stride(0);
  if (a.weights) {
    k.weighted = true;
    k.weights = {a.weights.data, a.weights.dtype()};
    k.weight_step = a.weights.stride(0);
  }
  k.out = a.out.data;
  k.n = a.in.numel();
  k.bins = a.out.numel();
  return k;
}

void launch_naive(const BincountArgs& a, const Launch& l) {
  const Bincount k = count_args(a);
  launch<bincount_naive>(grid_of(l, ceil_div(k.bins, kThreads), kThreads), k);
}

const char* why_not_atomics(const BincountArgs& a) {
  return a.weights ? "sums of weights have a fixed order" : nullptr;
}
void launch_atomics(const BincountArgs& a, const Launch& l) {
  const Bincount k = count_args(a);
  launch<bincount_clear>(grid_of(l, ceil_div(k.bins, kThreads), kThreads), a.out.as<i64>(), k.bins);
  // Few blocks with much to count each, as each of them goes over all bins at its end; more than
  // the machine holds at once only for a list whose counts would not fit 32 bits.
  const i64 parts = ceil_div(k.n, kCountThreads * 16),
            held = 4 * device_limits(l.device).multiprocessors;
  const i64 least = ceil_div(k.n, 1ll << 31);
  const i64 blocks = parts < held ? parts : held > least ? held : least;
  launch<bincount_atomics>(grid_of(l, k.bins ? blocks : 0, kCountThreads), k,
                           k.bins <= kSharedBins);
}

const char* why_not_sorted(const BincountArgs& a) {
  if (!a.weights) return "counts have no order to keep";
  if (a.out.numel() >= 0xffffffffll) return "bins are numbered in 32 bits";
  return RadixSort<u32>::why_not(1, a.in.numel());
}
i64 sorted_workspace(const BincountArgs& a) { return RadixSort<u32>::workspace(1, a.in.numel()); }
void launch_sorted(const BincountArgs& a, const Launch& l) {
  Bincount k = count_args(a);
  RadixSort<u32> s(l.workspace, 1, k.n);
  launch<bincount_keys>(grid_of(l, ceil_div(k.n, kThreads), kThreads), k, s.keys);
  int passes = 1;
  while (passes < 4 && k.bins >> 8 * passes > 0) ++passes;
  radix_sort(s, passes, l);
  k.keys = s.keys, k.places = s.places;
  launch<bincount_sorted>(grid_of(l, ceil_div(k.bins, kThreads), kThreads), k);
}

// --- multinomial ---

struct Draws {
  Weights p;
  i64 row_stride, step;
  double* line;  // [rows, places]: running sums, or times
  i64* out;
  i64 out_stride, out_step;
  i64 rows, places, draws;
  PhiloxKey key;
  u64 call;
  template <class F>
  void visit_pointers(F&& f) const {
    f(p.at), f(line), f(out);
  }
  __device__ __forceinline__ double weight(i64 row, i64 c) const {
    return p[row * row_stride + c * step];
  }
  __device__ __forceinline__ double uniform(i64 block) const {
    const PhiloxBlock bits = philox(key, u64(block), call);
    return uniform53(bits.v[0], bits.v[1]);
  }
};

__global__ void __launch_bounds__(64) multinomial_sums_naive(Draws a) {
  const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= a.rows) return;
  double* const sums = a.line + row * a.places;
  double sum = 0;
  // The cpu's additions in the cpu's order: the same places for the same seed. A row of a
  // vocabulary is 50,000 steps of one thread, and its lanes read rows apart.
  for (i64 c = 0; c < a.places; ++c) sums[c] = sum += a.weight(row, c);
}

constexpr int kSumThreads = 256;

// Runs of a row are added side by side. Roundings are others than naive's: the sums differ in their
// last bits, and with them one draw in 10^14 or so.
__global__ void __launch_bounds__(kSumThreads) multinomial_sums_block(Draws a) {
  WT_SHARED(double, before, [kSumThreads]);
  const u32 t = threadIdx.x;
  const i64 run = (a.places + kSumThreads - 1) / kSumThreads;
  const i64 begin = t * run < a.places ? t * run : a.places;
  const i64 end = begin + run < a.places ? begin + run : a.places;
  for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x) {
    double* const sums = a.line + row * a.places;
    // Lanes read a run apart, 32 sectors an instruction, but a sector serves the next steps from
    // the first cache.
    double sum = 0;
    for (i64 c = begin; c < end; ++c) sum += a.weight(row, c);
    before[t] = sum;
    __syncthreads();
    // One after the other: where a run ends and the next begins there is then the same bits on both
    // sides. Any other order could leave a step down, or one up at a place without a probability.
    if (t == 0) {
      double up_to = 0;
      for (int k = 0; k < kSumThreads; ++k) {
        const double own = before[k];
        before[k] = up_to;
        up_to += own;
      }
    }
    __syncthreads();
    sum = 0;
    for (i64 c = begin; c < end; ++c) {
      sum += a.weight(row, c);
      sums[c] = before[t] + sum;
    }
    __syncthreads();
  }
}

// The first of n ascending sums above `target` (Above), or not below it.
template <bool Above>
__device__ __forceinline__ i64 find_sum(const double* sums, i64 n, double target) {
  i64 begin = 0;
  while (n > 0) {
    const i64 half = n / 2;
    const double sum = sums[begin + half];
    if (Above ? sum <= target : sum < target)
      begin += half + 1, n -= half + 1;
    else
      n = half;
  }
  return begin;
}

__global__ void __launch_bounds__(kThreads) multinomial_search(Draws a) {
  const i64 stride = i64(gridDim.x) * blockDim.x, n = a.rows * a.draws;
  for (i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x; e < n; e += stride) {
    const i64 row = n <= 0xffffffffll ? i64(u32(e) / u32(a.draws)) : e / a.draws;
    const double* const sums = a.line + row * a.places;
    const double total = sums[a.places - 1];
    i64 c = find_sum<true>(sums, a.places, a.uniform(e) * total);
    // Rounded up to the total: then the last place with a probability.
    if (c == a.places) c = find_sum<false>(sums, a.places, total);
    a.out[row * a.out_stride + (e - row * a.draws) * a.out_step] = c;
  }
}

__global__ void __launch_bounds__(kThreads) multinomial_times(Draws a) {
  const i64 stride = i64(gridDim.x) * blockDim.x, n = a.rows * a.places;
  for (i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x; e < n; e += stride) {
    const i64 row = n <= 0xffffffffll ? i64(u32(e) / u32(a.places)) : e / a.places;
    const double w = a.weight(row, e - row * a.places);
    // log1p is each device's own: two times that differ in the last bit alone may change places.
    a.line[e] = w > 0 ? -log1p(-a.uniform(e)) / w : __longlong_as_double(0x7ff0000000000000ll);
  }
}

Draws draw_args(const MultinomialArgs& a, const Launch& l) {
  return {{a.p.data, a.p.dtype()},
          a.p.stride(0),
          a.p.stride(1),
          static_cast<double*>(l.workspace),
          a.out.as<i64>(),
          a.out.stride(0),
          a.out.stride(1),
          a.p.size(0),
          a.p.size(1),
          a.out.size(1),
          a.key,
          a.call};
}

inline i64 line_bytes(const MultinomialArgs& a) { return ceil_div(a.p.numel() * 8, 256) * 256; }

// The times of all rows as something to sort: the places of the least ones are the draws.
struct TimesInOrder {
  Geometry times{};
  SortArgs sort;
  TimesInOrder(const MultinomialArgs& a, void* line) {
    times.shape[0] = a.p.size(0);
    times.shape[1] = times.strides[0] = a.p.size(1);
    times.strides[1] = 1;
    times.ndim = 2;
    times.dtype = DType::f64;
    finish_geometry(times);
    sort.indices = a.out;
    sort.in = {line, &times};
    sort.axis = 1;
  }
  TimesInOrder(const TimesInOrder&) = delete;  // `sort` points to `times`
};

i64 naive_workspace(const MultinomialArgs& a) { return line_bytes(a); }
i64 block_workspace(const MultinomialArgs& a) {
  return line_bytes(a) + (a.replacement ? 0 : sort_workspace(TimesInOrder(a, nullptr).sort));
}

void launch_search(const Draws& k, const Launch& l) {
  launch<multinomial_search>(grid_of(l, ceil_div(k.rows * k.draws, kThreads), kThreads), k);
}
void launch_times(const Draws& k, const Launch& l) {
  launch<multinomial_times>(grid_of(l, ceil_div(k.rows * k.places, kThreads), kThreads), k);
}
void launch_naive(const MultinomialArgs& a, const Launch& l) {
  const Draws k = draw_args(a, l);
  if (a.replacement) {
    launch<multinomial_sums_naive>(grid_of(l, ceil_div(k.rows, 64), 64), k);
    return launch_search(k, l);
  }
  launch_times(k, l);
  launch_sort_naive(TimesInOrder(a, l.workspace).sort, l);
}
void launch_block(const MultinomialArgs& a, const Launch& l) {
  const Draws k = draw_args(a, l);
  if (a.replacement) {
    launch<multinomial_sums_block>(grid_of(l, k.rows, kSumThreads), k);
    return launch_search(k, l);
  }
  launch_times(k, l);
  Launch rest = l;
  rest.workspace = static_cast<char*>(l.workspace) + line_bytes(a);
  launch_sort(TimesInOrder(a, l.workspace).sort, rest);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, bincount, BincountArgs,
            {.name = "sorted",
             .rank = 30,
             .why_not = why_not_sorted,
             .workspace = sorted_workspace,
             .launch = launch_sorted},
            {.name = "atomics", .rank = 20, .why_not = why_not_atomics, .launch = launch_atomics},
            {.name = "naive", .rank = 10, .launch = launch_naive});
WT_VARIANTS(WT_DEVICE_NS, multinomial, MultinomialArgs,
            {.name = "block", .rank = 20, .workspace = block_workspace, .launch = launch_block},
            {.name = "naive", .rank = 10, .workspace = naive_workspace, .launch = launch_naive});

}  // namespace wt
