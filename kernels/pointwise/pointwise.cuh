// The kernels of elementwise entries on simt and cuda: one for good, in which a thread takes 16
// bytes of neighbours where the operands allow it, and `naive`, a thread an element.
#pragma once
#define WT_FORMULAS_BY_LIBM 1  // before pointwise_math.h: an element at a time
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/strided_index.cuh"
#include "warptape/kernels/device/vector.cuh"
#include "warptape/kernels/pointwise.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr unsigned kThreadsMost = 256;

// A part of a call whose offsets fit into 32 bits, whatever its entry. Operand k + 1 of the map is
// in[k].
template <int N>
struct PointwisePart {
  void* out;
  const void* in[N];  // null: the scalar
  double scalar;
  i64 scalar_int;
  u32 numel;
  bool packs;  // rows are whole packs, aligned, of neighbours or of one repeated value
  IndexMap<N + 1> map;

  template <class V>
  void visit_pointers(V&& v) const {
    v(out);
    for (const void* p : in) v(p);
  }
};

template <class F, class S>
using OutputOf = std::conditional_t<F::kPredicate, bool, S>;

template <int N>
__device__ WT_HOST_NOINLINE void offsets_of(const PointwisePart<N>& p, u32 i, i32 (&at)[N + 1]) {
  p.map.offsets(i, at);
}

template <class F, class S>
__device__ __forceinline__ ComputeType<S> load_one(const PointwisePart<F::kArity>& p, int k,
                                                   i32 at) {
  using T = ComputeType<S>;
  // A scalar operand: it came with the arguments, in constant memory, which all lanes read at once.
  if (!p.in[k]) return std::is_integral_v<T> ? T(p.scalar_int) : T(p.scalar);
  if (F::kSelects && k == 0) return T(static_cast<const bool*>(p.in[k])[at]);
  return T(static_cast<const S*>(p.in[k])[at]);
}
template <class F, class S>
__device__ __forceinline__ void one_element(const PointwisePart<F::kArity>& p, const F& f, u32 i) {
  constexpr int N = F::kArity;
  i32 at[N + 1];
  offsets_of(p, i, at);
  ComputeType<S> v[N];
  // All loads before the first use: N of them are under way together.
#pragma unroll
  for (int k = 0; k < N; ++k) v[k] = load_one<F, S>(p, k, at[k + 1]);
  static_cast<OutputOf<F, S>*>(p.out)[at[0]] = OutputOf<F, S>(pw::apply(f, v));
}

template <class F, class S>
__global__ void __launch_bounds__(kThreadsMost)
    pointwise_naive(const __grid_constant__ PointwisePart<F::kArity> p,
                    const __grid_constant__ F f) {
  // Neighbouring threads, neighbouring elements: a warp reads and writes 128 bytes in a row (f32),
  // but each thread computes offsets, which is most of its instructions, for a single element.
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.numel) one_element<F, S>(p, f, i);
}

template <class From, int V, class T>
__device__ __forceinline__ void load_pack(T (&v)[V], const void* p, i32 at) {
  From pack[V];
  load_vector(pack, static_cast<const From*>(p) + at);
#pragma unroll
  for (int j = 0; j < V; ++j) v[j] = T(pack[j]);
}
template <int V, class F, class S>
__device__ __forceinline__ void one_pack(const PointwisePart<F::kArity>& p, const F& f, u32 i) {
  constexpr int N = F::kArity;
  i32 at[N + 1];
  offsets_of(p, i, at);
  ComputeType<S> in[N][V];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    // The same for all threads of the grid. A stride of 0 along the pack is a value for all of it:
    // a bias along the channels of NCHW is one load of 4 bytes and not four.
    if (p.in[k] && p.map.stride[k + 1][0] == 1) {
      if (F::kSelects && k == 0)
        load_pack<bool>(in[k], p.in[k], at[k + 1]);
      else
        load_pack<S>(in[k], p.in[k], at[k + 1]);
    } else {
      const ComputeType<S> repeated = load_one<F, S>(p, k, at[k + 1]);
#pragma unroll
      for (int j = 0; j < V; ++j) in[k][j] = repeated;
    }
  }
  // 4 or 8 elements whose chains of arithmetic do not touch: while one waits for its exp, the
  // others go on. `in` and `out` are registers, for every index is known when the loops are
  // unrolled.
  OutputOf<F, S> out[V];
#pragma unroll
  for (int j = 0; j < V; ++j) {
    ComputeType<S> v[N];
#pragma unroll
    for (int k = 0; k < N; ++k) v[k] = in[k][j];
    out[j] = OutputOf<F, S>(pw::apply(f, v));
  }
  // out may be an operand: a thread writes only what it has read itself.
  store_vector(static_cast<OutputOf<F, S>*>(p.out) + at[0], out);
}

// Integers have no packs: their bandwidth matters to nobody, and it would double the code.
template <class S>
constexpr bool kHasPacks = std::is_floating_point_v<ComputeType<S>>;
// 16 bytes of the elements: the widest access there is. 4, 8 or 2 elements share one computation of
// offsets, which would be most of the instructions.
template <class S>
constexpr int kPerThread = kHasPacks<S> ? int(16 / sizeof(S)) : 4;

template <class F, class S>
__global__ void __launch_bounds__(kThreadsMost)
    pointwise(const __grid_constant__ PointwisePart<F::kArity> p, const __grid_constant__ F f) {
  constexpr int V = kPerThread<S>;
  // Without packs a thread's elements are blockDim apart, so that in each turn the lanes of a warp
  // are neighbours; with packs V neighbours a lane are, because they are one access.
  const u32 block = blockIdx.x * blockDim.x * V;
  u32 i = block + threadIdx.x, step = blockDim.x;
  if constexpr (kHasPacks<S>) {
    if (p.packs) {
      i = block + threadIdx.x * V;
      step = 1;
      if (i + V <= p.numel) return one_pack<V, F, S>(p, f, i);
    }
  }
  // The formula's code once, not V times: the instruction cache has to hold the packs' code as
  // well.
#pragma unroll 1
  for (int j = 0; j < V && i < p.numel; ++j, i += step) one_element<F, S>(p, f, i);
}

// --- host side: one code for all entries ---

template <int N>
struct PointwiseLaunch {
  void (*launch)(const Config& c, const PointwisePart<N>& p, const void* f);
  int per_thread, pack;            // elements; pack 0: none
  i64 out_size, first_size, size;  // bytes an element: of out, of in[0], of the others
};

template <int N>
bool in_packs(const PointwisePart<N>& p, const PointwiseLaunch<N>& how) {
  const IndexMap<N + 1>& m = p.map;
  const int V = how.pack;
  if (V == 0 || m.ndim == 0 || (m.ndim > 1 && m.size[0].divisor % unsigned(V) != 0)) return false;
  for (int k = 0; k <= N; ++k) {
    const void* data = k == 0 ? p.out : p.in[k - 1];
    const i64 size = k == 0 ? how.out_size : k == 1 ? how.first_size : how.size;
    if (!data || (k > 0 && m.stride[k][0] == 0)) continue;
    // A 16-byte access off its boundary is an error on the GPU, not a slow access.
    if (m.stride[k][0] != 1 || reinterpret_cast<uintptr_t>(data) % uintptr_t(V * size) != 0)
      return false;
    for (int d = 1; d < m.ndim; ++d)
      if (m.stride[k][d] % V != 0) return false;
  }
  return true;
}

template <int N>
void launch_parts(const View& out, const View (&in)[N], double scalar, i64 scalar_int,
                  const void* f, const PointwiseLaunch<N>& how, const Launch& l) {
  View views[N + 1] = {out};
  for (int k = 0; k < N; ++k) views[k + 1] = in[k] ? in[k] : out;
  const i64 first[N + 1] = {};
  for_each_part(loop_nest(views, LoopOrder::memory), first, 0,
                [&](const LoopNest<N + 1>& nest, const i64(&at)[N + 1], i64) {
                  PointwisePart<N> p;
                  p.out = out.as<char>() + at[0] * how.out_size;
                  for (int k = 0; k < N; ++k)
                    p.in[k] = in[k] ? in[k].template as<char>() +
                                          at[k + 1] * (k == 0 ? how.first_size : how.size)
                                    : nullptr;
                  p.scalar = scalar;
                  p.scalar_int = scalar_int;
                  p.numel = u32(nest.numel);
                  // Goes to the kernel as a __grid_constant__ argument, read from constant memory
                  // where it lies. A plain parameter whose address is taken may be copied to each
                  // thread's local memory first.
                  p.map = index_map_32(nest);
                  p.packs = in_packs(p, how);
                  const unsigned each = unsigned(how.per_thread);
                  const unsigned threads = (p.numel + each - 1) / each;
                  // Fewer threads than a block for small tensors, in whole warps: a tape of tiny
                  // operators launches thousands.
                  const unsigned block =
                      threads >= kThreadsMost ? kThreadsMost : (threads + 31) / 32 * 32;
                  how.launch({.grid = (threads + block - 1) / block,
                              .block = block,
                              .stream = l.stream,
                              .op_name = l.op ? l.op->name : nullptr},
                             p, f);
                });
}

// What differs between 100 entries and 8 dtypes is behind one pointer: the host code above exists
// once an arity.
template <class F, auto Kernel>
void launch_kernel(const Config& c, const PointwisePart<F::kArity>& p, const void* f) {
  launch<Kernel>(c, p, *static_cast<const F*>(f));
}
template <class F, class S, bool kNaive>
constexpr PointwiseLaunch<F::kArity> how_to_launch() {
  constexpr i64 kSize = sizeof(S);
  if constexpr (kNaive)
    return {launch_kernel<F, pointwise_naive<F, S>>,
            1,
            0,
            F::kPredicate ? 1 : kSize,
            F::kSelects ? 1 : kSize,
            kSize};
  else
    return {launch_kernel<F, pointwise<F, S>>, kPerThread<S>,
            kHasPacks<S> ? kPerThread<S> : 0,  F::kPredicate ? 1 : kSize,
            F::kSelects ? 1 : kSize,           kSize};
}
// One row a dtype, in the order of DType; what is outside the entry's domain has none.
template <class F, bool kNaive>
struct PointwiseLaunches {
  PointwiseLaunch<F::kArity> of[kNumDTypes];
  constexpr PointwiseLaunches() : of{} {
    if constexpr (pw::has_floats(F::kDomain)) {
      of[int(f64)] = how_to_launch<F, double, kNaive>();
      of[int(f32)] = how_to_launch<F, float, kNaive>();
      of[int(f16)] = how_to_launch<F, __half, kNaive>();
      of[int(bf16)] = how_to_launch<F, __nv_bfloat16, kNaive>();
    }
    if constexpr (pw::has_integers(F::kDomain)) {
      of[int(DType::i64)] = how_to_launch<F, i64, kNaive>();
      of[int(DType::i32)] = how_to_launch<F, i32, kNaive>();
      of[int(DType::u8)] = how_to_launch<F, u8, kNaive>();
    }
    if constexpr (pw::has_bool(F::kDomain))
      of[int(DType::boolean)] = how_to_launch<F, bool, kNaive>();
  }
};

template <class F, bool kNaive>
void launch_row(const PointwiseArgs<F>& a, const Launch& l) {
  static constexpr PointwiseLaunches<F, kNaive> kLaunches;
  const PointwiseLaunch<F::kArity>& how = kLaunches.of[int(a.dtype())];
  if (!how.launch) pw::outside_domain(ContractTable<PointwiseArgs<F>>::kName, a.dtype());
  launch_parts(a.out, a.in, a.scalar, a.scalar_int, &a.f, how, l);
}
template <class F>
void good(const PointwiseArgs<F>& a, const Launch& l) {
  launch_row<F, false>(a, l);
}
template <class F>
void naive(const PointwiseArgs<F>& a, const Launch& l) {
  launch_row<F, true>(a, l);
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_POINTWISE_DEVICE_ROWS(contract, Args)                                                \
  WT_VARIANTS(WT_DEVICE_NS, contract, Args, {.name = "vectorized", .rank = 10, .launch = good}, \
              {.name = "naive", .launch = naive});

}  // namespace wt
