// Scans on simt and cuda. The ladder:
//   naive  one thread a line, an element after the other
//   ahead  one thread a line, which reads eight elements before it adds the first
//   block  one block a line: tiles of four elements a thread, scanned by shuffles; for lines of
//          neighbours, and for few and long ones
#include "warptape/kernels/scan.h"

#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128, kBlockThreads = 256;

// What a scan of T is carried in; i64 is scanned as u64, whose sums and products wrap.
template <class T>
using Carry = std::conditional_t<std::is_integral_v<T>, u64, double>;

// The first element's factor and term meet `first`. Both may be absent, not together.
template <class T>
struct Scan {
  enum { Out, Factor, Term };  // the operands of `rows`
  Rows<3> rows;
  T* out;
  const T *factor, *term;  // null: absent
  bool reverse;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(factor), f(term);
  }
  __device__ __forceinline__ RowOf<const T> operand(int k, const T* p, i64 line) const {
    // Nothing may be added to a null pointer.
    return {p ? p + rows.start(k, line) : nullptr, rows.step[k]};
  }
};
template <class T>
__device__ __forceinline__ Carry<T> widened(T v) {
  return Carry<T>(ComputeType<T>(v));
}
template <class T>
__device__ __forceinline__ T narrowed(Carry<T> v) {
  return T(ComputeType<T>(v));
}

// --- a thread a line ---

template <class T>
__global__ void __launch_bounds__(kThreads) scan_naive(Scan<T> a) {
  const i64 line = i64(blockIdx.x) * kThreads + threadIdx.x, n = a.rows.length;
  if (line >= a.rows.count) return;
  const auto out = a.rows.row(a.Out, a.out, line);
  const auto factor = a.operand(a.Factor, a.factor, line), term = a.operand(a.Term, a.term, line);
  Carry<T> carry = a.term ? 0 : 1;
  // Along any axis but the innermost, neighbouring threads read neighbours. What is slow: out may
  // be one of the operands, so the compiler must not move a load above the store before it, and
  // each element waits for memory by itself. An addition of doubles is free beside that.
  for (i64 i = 0; i < n; ++i) {
    const i64 k = a.reverse ? n - 1 - i : i;
    if (a.factor) carry *= widened<T>(factor[k]);
    if (a.term) carry += widened<T>(term[k]);
    out[k] = narrowed<T>(carry);
  }
}

constexpr int kAhead = 8;

template <class T>
__global__ void __launch_bounds__(kThreads) scan_ahead(Scan<T> a) {
  const i64 line = i64(blockIdx.x) * kThreads + threadIdx.x, n = a.rows.length;
  if (line >= a.rows.count) return;
  const auto out = a.rows.row(a.Out, a.out, line);
  const auto factor = a.operand(a.Factor, a.factor, line), term = a.operand(a.Term, a.term, line);
  Carry<T> carry = a.term ? 0 : 1;
  for (i64 i = 0; i < n; i += kAhead) {
    // Eight or sixteen loads under way together, by this order of the source: what a load waits for
    // is the memory, and not the sum before it.
    T f[kAhead], t[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const i64 k = a.reverse ? n - 1 - i - j : i + j;
      if (a.factor && i + j < n) f[j] = factor[k];
      if (a.term && i + j < n) t[j] = term[k];
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (i + j >= n) break;
      if (a.factor) carry *= widened<T>(f[j]);
      if (a.term) carry += widened<T>(t[j]);
      out[a.reverse ? n - 1 - i - j : i + j] = narrowed<T>(carry);
    }
  }
}

// --- a block a line ---

// What some elements in a row make of the value before them: factor * x + value. Two such steps are
// one, and how they are put together in pairs does not matter but for rounding: that is what lets
// 256 threads work on one recurrence.
template <class C>
struct Step {
  C factor, value;
  __device__ __forceinline__ C operator()(C x, bool factors, bool terms) const {
    // A running product has no terms, and 0 for them would not do: 0 * inf is NaN.
    if (factors) x *= factor;
    if (terms) x += value;
    return x;
  }
  // This step after `earlier`.
  __device__ __forceinline__ Step after(const Step& earlier, bool factors, bool terms) const {
    return {factors ? factor * earlier.factor : factor,
            terms ? (*this)(earlier.value, factors, true) : value};
  }
};

// Elements a thread and tile. Not the eight of 16 bytes for 16-bit floats: their doubles would take
// 100 registers a thread, and two blocks a multiprocessor would be all that fit.
template <class T>
constexpr int kRun = sizeof(T) == 8 ? 2 : 4;
template <class T>
using Run = Pack<T, kRun<T>>;

// Where a run that begins at element p, counted in the direction of the scan, lies in its line: the
// lowest of its elements. Those outside of [0, n) are not there.
template <class T>
__device__ __forceinline__ i64 lowest_of(i64 n, i64 p, bool reverse) {
  return reverse ? n - p - kRun<T> : p;
}
template <class T>
__device__ __forceinline__ bool is_pack(RowOf<const T> line, i64 n, i64 lowest) {
  return line.step == 1 && lowest >= 0 && lowest + kRun<T> <= n &&
         reinterpret_cast<uintptr_t>(line.data + lowest) % sizeof(Run<T>) == 0;
}
// A run in the order of memory, as one access where it may be.
template <class T>
__device__ __forceinline__ Run<T> load_run(RowOf<const T> line, i64 n, i64 p, bool reverse,
                                           float pad) {
  const i64 lowest = lowest_of<T>(n, p, reverse);
  if (is_pack(line, n, lowest)) return vload<Run<T>>(line.data + lowest);
  Run<T> v;
#pragma unroll
  for (int m = 0; m < kRun<T>; ++m)
    v.v[m] = lowest + m >= 0 && lowest + m < n ? line[lowest + m] : T(pad);
  return v;
}
template <class T>
__device__ __forceinline__ void store_run(RowOf<T> line, const Run<T>& v, i64 n, i64 p,
                                          bool reverse) {
  const i64 lowest = lowest_of<T>(n, p, reverse);
  if (is_pack<T>({line.data, line.step}, n, lowest)) {
    vstore(line.data + lowest, v);
  } else {
#pragma unroll
    for (int m = 0; m < kRun<T>; ++m)
      if (lowest + m >= 0 && lowest + m < n) line[lowest + m] = v.v[m];
  }
}
// Element j in the direction of the scan; j is known when the loops are unrolled.
template <class T>
__device__ __forceinline__ Carry<T> element(const Run<T>& v, int j, bool reverse) {
  return widened<T>(reverse ? v.v[kRun<T> - 1 - j] : v.v[j]);
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads) scan_block(Scan<T> a) {
  using C = Carry<T>;
  constexpr int kWarps = kBlockThreads / 32;
  WT_SHARED(C, warp_factor, [2][kWarps]);
  WT_SHARED(C, warp_value, [2][kWarps]);
  WT_SHARED(C, carried, );
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
  const int warps = int(blockDim.x / 32);
  const bool factors = a.factor != nullptr, terms = a.term != nullptr, reverse = a.reverse;
  const i64 n = a.rows.length, tile = i64(blockDim.x) * kRun<T>;
  int buffer = 0;
  for (i64 line = blockIdx.x; line < a.rows.count; line += gridDim.x) {
    const auto out = a.rows.row(a.Out, a.out, line);
    const auto factor = a.operand(a.Factor, a.factor, line), term = a.operand(a.Term, a.term, line);
    C carry = terms ? 0 : 1;  // the same in all threads
    Run<T> f{}, t{};
    i64 p = i64(threadIdx.x) * kRun<T>;
    if (factors) f = load_run(factor, n, p, reverse, 1);
    if (terms) t = load_run(term, n, p, reverse, 0);
    for (i64 begin = 0; begin < n; begin += tile, p += tile, buffer ^= 1) {
      // Of the thread's own elements, then of its and all lanes' before it: five rounds of
      // shuffles, in which the distance doubles.
      Step<C> step{1, 0};
#pragma unroll
      for (int j = 0; j < kRun<T>; ++j)
        step = Step<C>{factors ? element<T>(f, j, reverse) : C(1),
                       terms ? element<T>(t, j, reverse) : C(0)}
                   .after(step, factors, terms);
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        Step<C> earlier{1, 0};
        if (factors) earlier.factor = __shfl_up_sync(kAllLanes, step.factor, unsigned(d));
        if (terms) earlier.value = __shfl_up_sync(kAllLanes, step.value, unsigned(d));
        if (lane >= d) step = step.after(earlier, factors, terms);
      }
      if (lane == 31) {
        warp_factor[buffer][warp] = step.factor;
        warp_value[buffer][warp] = step.value;
      }
      Step<C> before{1, 0};
      if (factors) before.factor = __shfl_up_sync(kAllLanes, step.factor, 1u);
      if (terms) before.value = __shfl_up_sync(kAllLanes, step.value, 1u);
      if (lane == 0) before = {1, 0};
      // The next tile is asked for before this one is waited for.
      Run<T> next_f{}, next_t{};
      if (factors) next_f = load_run(factor, n, p + tile, reverse, 1);
      if (terms) next_t = load_run(term, n, p + tile, reverse, 0);
      // A product of many factors may leave the range of double where the recurrence itself does
      // not: ten factors of 1e38 after a zero. inf * 0 would make NaN of it, so a tile in which
      // that happens is scanned by one thread. The only barrier a tile: the two buffers take turns.
      const bool beyond = factors && !(step.factor - step.factor == 0);
      if (__syncthreads_or(beyond)) {
        if (threadIdx.x == 0) {
          const i64 end = begin + tile < n ? begin + tile : n;
          for (i64 i = begin; i < end; ++i) {
            const i64 k = reverse ? n - 1 - i : i;
            if (factors) carry *= widened<T>(factor[k]);
            if (terms) carry += widened<T>(term[k]);
            out[k] = narrowed<T>(carry);
          }
          carried = carry;
        }
        __syncthreads();
        carry = carried;
      } else {
        // The value before this thread's elements: eight steps at most, one address for a warp.
        C x = carry;
        for (int w = 0; w < warps; ++w) {
          if (w == warp) x = carry;
          carry = Step<C>{warp_factor[buffer][w], warp_value[buffer][w]}(carry, factors, terms);
        }
        x = before(x, factors, terms);
        Run<T> y;
#pragma unroll
        for (int j = 0; j < kRun<T>; ++j) {
          if (factors) x *= element<T>(f, j, reverse);
          if (terms) x += element<T>(t, j, reverse);
          const T value = narrowed<T>(x);
          if (reverse)
            y.v[kRun<T> - 1 - j] = value;
          else
            y.v[j] = value;
        }
        // out may be an operand: a thread writes what it has read itself.
        store_run(out, y, n, p, reverse);
      }
      f = next_f;
      t = next_t;
    }
  }
}

// --- choice and launch ---

template <class T>
Scan<T> scan_args(const ScanArgs& a) {
  const View& factor = a.factor ? a.factor : a.out;
  const View& term = a.term ? a.term : a.out;
  return {rows_along<3>(a.axis, {{a.out}, {factor}, {term}}), a.out.as<T>(), a.factor.as<const T>(),
          a.term.as<const T>(), a.reverse};
}
i64 line_length(const ScanArgs& a) { return a.out.ndim() == 0 ? 1 : a.out.size(a.axis); }
i64 line_count(const ScanArgs& a) {
  return a.out.numel() == 0 ? 0 : a.out.numel() / line_length(a);
}

// Calls f for the types of the good rungs.
template <class F>
void with_scanned(DType t, F f) {
  if (t == DType::i64)
    f(TypeTag<u64>{});
  else
    with_float(t, f);
}
void launch_naive(const ScanArgs& a, const Launch& l) {
  const Config c = grid_of(l, ceil_div(line_count(a), kThreads), kThreads);
  const auto f = [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<scan_naive<T>>(c, scan_args<T>(a));
  };
  if (a.out.dtype() == DType::f64)
    f(TypeTag<double>{});
  else
    with_scanned(a.out.dtype(), f);
}
const char* not_double(const ScanArgs& a) {
  return a.out.dtype() == DType::f64 ? "f64 has the naive rung only" : nullptr;
}
void launch_ahead(const ScanArgs& a, const Launch& l) {
  const Config c = grid_of(l, ceil_div(line_count(a), kThreads), kThreads);
  with_scanned(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<scan_ahead<T>>(c, scan_args<T>(a));
  });
}
bool neighbours(const View& v, int axis) { return !v || v.ndim() == 0 || v.stride(axis) == 1; }
int rank_of_block(const ScanArgs& a) {
  const i64 n = line_length(a);
  // Lines of neighbours: below 64 elements most of a warp would idle, and a line is few sectors
  // for a thread. Other lines: a thread a line reads in a row as it is, unless there are too few
  // lines to keep the machine busy.
  const bool in_a_row =
      neighbours(a.out, a.axis) && neighbours(a.factor, a.axis) && neighbours(a.term, a.axis);
  return (in_a_row && n >= 64) || (n >= 1024 && line_count(a) < 1024) ? 30 : 15;
}
void launch_block(const ScanArgs& a, const Launch& l) {
  with_scanned(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const i64 wanted = 32 * ceil_div(line_length(a), 32 * kRun<T>);
    const i64 threads = wanted < 32 ? 32 : wanted > kBlockThreads ? kBlockThreads : wanted;
    launch<scan_block<T>>(grid_of(l, line_count(a), threads), scan_args<T>(a));
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, scan, ScanArgs,
            {.name = "block",
             .rank = 30,
             .why_not = not_double,
             .rank_of = rank_of_block,
             .launch = launch_block},
            {.name = "ahead", .rank = 20, .why_not = not_double, .launch = launch_ahead},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
