// Reductions on simt and cuda.
//   naive  a thread an output, one element after the other
//   block  a warp or a block an output (or 32 neighbouring outputs), loads that coalesce, the
//          reduction of few long outputs split over blocks and finished by a second kernel
#include "warptape/kernels/reduce.h"

#include "warptape/kernels/block_reduce.cuh"
#include "warptape/kernels/index.cuh"
#include "warptape/kernels/vector.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

using detail::ReducePlan;

// --- the operations
// ------------------------------------------------------------------------------- Op<T> has:
// Element, Compute (what an element becomes), State, Out; identity(), take() a value at a place
// among the reduced, merge() two states, finish() one into its output.
template <class T>
constexpr bool kInteger = std::is_integral_v<T>;
template <class T>
using Float = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
struct SumOf {
  using Element = T;
  using Compute = std::conditional_t<kInteger<T>, u64, Float<T>>;  // unsigned: overflow wraps
  using State = Compute;
  using Out = std::conditional_t<kInteger<T>, u64, T>;
  Compute divide_by;
  bool accumulate;

  explicit SumOf(const SumArgs& a) : divide_by(Compute(a.divide_by)), accumulate(a.accumulate) {}
  static __device__ __forceinline__ State identity() { return 0; }
  static __device__ __forceinline__ void take(State& s, Compute v, i64) { s += v; }
  static __device__ __forceinline__ State merge(State a, State b) { return a + b; }
  __device__ __forceinline__ void finish(Out* out, State s) const {
    if constexpr (!kInteger<T>) s /= divide_by;
    *out = Out(accumulate ? Compute(*out) + s : s);
  }
};

template <class C>
__device__ __forceinline__ C lowest() {
  if constexpr (kInteger<C>)
    return C(u64(1) << 63);
  else
    return C(-INFINITY);
}
// NaN beats every number.
template <class C>
__device__ __forceinline__ bool beats(C v, C best) {
  return v > best || (v != v && best == best);
}

template <class T>
struct MaxOf {
  using Element = T;
  using Compute = std::conditional_t<kInteger<T>, i64, Float<T>>;
  using State = Compute;
  using Out = T;

  explicit MaxOf(const MaxArgs&) {}
  static __device__ __forceinline__ State identity() { return lowest<Compute>(); }
  static __device__ __forceinline__ void take(State& s, Compute v, i64) {
    if (beats(v, s)) s = v;
  }
  static __device__ __forceinline__ State merge(State a, State b) { return beats(b, a) ? b : a; }
  __device__ __forceinline__ void finish(Out* out, State s) const { *out = Out(s); }
};

template <class C>
struct Candidate {
  C value;
  i64 place;
};
template <class C>
__device__ __forceinline__ Candidate<C> shuffle_xor(Candidate<C> c, int lanes) {
  return {wt::shuffle_xor(c.value, lanes), wt::shuffle_xor(c.place, lanes)};
}

template <class T>
struct ArgmaxOf {
  using Element = T;
  using Compute = std::conditional_t<kInteger<T>, i64, Float<T>>;
  using State = Candidate<Compute>;
  using Out = i64;

  explicit ArgmaxOf(const ArgmaxArgs&) {}
  static __device__ __forceinline__ State identity() { return {lowest<Compute>(), INT64_MAX}; }
  static __device__ __forceinline__ void take(State& s, Compute v, i64 place) {
    s = merge(s, {v, place});
  }
  static __device__ __forceinline__ State merge(State a, State b) {
    if (beats(b.value, a.value)) return b;
    return !beats(a.value, b.value) && b.place < a.place ? b : a;
  }
  __device__ __forceinline__ void finish(Out* out, State s) const { *out = s.place; }
};

template <class Op>
struct Merge {
  using State = typename Op::State;
  __device__ __forceinline__ State operator()(State a, State b) const { return Op::merge(a, b); }
};

// --- where the elements lie
// -----------------------------------------------------------------------
template <int N>
struct AnyMap {
  bool small;
  IndexMap<N> near;
  IndexMap64<N> far;

  explicit AnyMap(const LoopNest<N>& nest) : small(fits_32_bits(nest)), near{}, far{} {
    if (small)
      near = index_map_32(nest);
    else
      far = index_map_64(nest);
  }
  __device__ __forceinline__ void offsets(i64 i, i64 (&at)[N]) const {
    if (small) {
      i32 o[N];
      near.offsets(u32(i), o);
      for (int k = 0; k < N; ++k) at[k] = o[k];
    } else {
      far.offsets(i, at);
    }
  }
};

struct Places {
  i64 outputs, length;
  i64 step;  // between reduced elements where they lie in one line, else 0
  AnyMap<2> kept;
  AnyMap<1> reduced;

  explicit Places(const ReducePlan& p)
      : outputs(p.kept.numel),
        length(p.reduced.numel),
        step(p.reduced.ndim <= 1 ? p.reduced.inner_stride(0) : 0),
        kept(p.kept),
        reduced(p.reduced) {}
  __device__ __forceinline__ i64 element(i64 i) const {
    if (step) return i * step;
    i64 at[1];
    reduced.offsets(i, at);
    return at[0];
  }
};

template <class Op>
__device__ __forceinline__ typename Op::Compute load(const typename Op::Element* p) {
  return static_cast<typename Op::Compute>(*p);
}

// --- naive
// ----------------------------------------------------------------------------------------
constexpr int kThreads = 256;

template <class Op>
__global__ void __launch_bounds__(kThreads)
    reduce_naive(typename Op::Out* out, const typename Op::Element* in, Op op, Places places) {
  const i64 o = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (o >= places.outputs) return;
  i64 at[2];
  places.kept.offsets(o, at);
  auto state = Op::identity();
  for (i64 i = 0; i < places.length; ++i)
    Op::take(state, load<Op>(in + at[0] + places.element(i)), i);
  op.finish(out + at[1], state);
}

// --- rows: `group` threads (a warp or the block) share an output
// ---------------------------------- Elements [begin, end) of one output, every group-th of them.
template <class Op>
__device__ typename Op::State reduce_strip(const typename Op::Element* in, const Places& places,
                                           i64 begin, i64 end, int lane, int group) {
  using T = typename Op::Element;
  constexpr int kEach = sizeof(T) == 1 ? 1 : int(16 / sizeof(T));
  auto state = Op::identity();
  if (kEach > 1 && places.step == 1 && aligned_16(in + begin)) {
    constexpr int kChains = kEach < 4 ? kEach : 4;
    typename Op::State states[kChains];
    for (int k = 0; k < kChains; ++k) states[k] = Op::identity();
    i64 i = begin + i64(lane) * kEach;
#pragma unroll 2
    for (; i + kEach <= end; i += i64(group) * kEach) {
      T v[kEach];
      load_vector(v, in + i);
#pragma unroll
      for (int k = 0; k < kEach; ++k) Op::take(states[k % kChains], load<Op>(v + k), i + k);
    }
    for (int k = 0; k < kChains; ++k) state = Op::merge(state, states[k]);
    begin = end - (end - begin) % kEach;
  }
#pragma unroll 4
  for (i64 i = begin + lane; i < end; i += group)
    Op::take(state, load<Op>(in + places.element(i)), i);
  return state;
}

// The part of a reduction that block row blockIdx.y of gridDim.y does; parts begin at multiples of
// 16 elements.
struct Part {
  i64 begin, end;
  __device__ __forceinline__ explicit Part(i64 length) {
    const i64 each = ((length + gridDim.y - 1) / gridDim.y + 15) / 16 * 16;
    begin = each * blockIdx.y < length ? each * blockIdx.y : length;
    end = length - begin < each ? length : begin + each;
  }
};

// partial[output][part], or null: one part, which is finished here.
template <class Op>
__global__ void __launch_bounds__(kThreads)
    reduce_rows(typename Op::Out* out, const typename Op::Element* in, Op op, Places places,
                typename Op::State* partial, int group) {
  const int lane = int(threadIdx.x) % group;
  const i64 o = i64(blockIdx.x) * (int(blockDim.x) / group) + int(threadIdx.x) / group;
  auto state = Op::identity();
  i64 at[2] = {0, 0};
  if (o < places.outputs) {
    const Part part(places.length);
    places.kept.offsets(o, at);
    state = reduce_strip<Op>(in + at[0], places, part.begin, part.end, lane, group);
  }
  state = group == 32 ? warp_reduce(state, Merge<Op>{}) : block_reduce(state, Merge<Op>{});
  if (lane != 0 || o >= places.outputs) return;
  if (partial)
    partial[o * gridDim.y + blockIdx.y] = state;
  else
    op.finish(out + at[1], state);
}

// --- columns: 32 neighbouring outputs a block, a warp a row
// ------------------------------------------
constexpr int kRowsAtOnce = kThreads / 32;

template <class Op>
__global__ void __launch_bounds__(kThreads)
    reduce_columns(typename Op::Out* out, const typename Op::Element* in, Op op, Places places,
                   typename Op::State* partial) {
  WT_SHARED(typename Op::State, tile, [kRowsAtOnce][32]);
  const int column = int(threadIdx.x) % 32, row = int(threadIdx.x) / 32;
  const i64 o = i64(blockIdx.x) * 32 + column;
  auto state = Op::identity();
  i64 at[2] = {0, 0};
  if (o < places.outputs) {
    const Part part(places.length);
    places.kept.offsets(o, at);
#pragma unroll 4
    for (i64 i = part.begin + row; i < part.end; i += kRowsAtOnce)
      Op::take(state, load<Op>(in + at[0] + places.element(i)), i);
  }
  tile[row][column] = state;
  __syncthreads();
  if (row != 0 || o >= places.outputs) return;
  for (int r = 1; r < kRowsAtOnce; ++r) state = Op::merge(state, tile[r][column]);
  if (partial)
    partial[o * gridDim.y + blockIdx.y] = state;
  else
    op.finish(out + at[1], state);
}

// --- the second pass: a warp an output
// ----------------------------------------------------------------
template <class Op>
__global__ void __launch_bounds__(kThreads)
    reduce_parts(typename Op::Out* out, const typename Op::State* partial, Op op, Places places,
                 int parts) {
  const int lane = int(threadIdx.x) % 32;
  const i64 o = i64(blockIdx.x) * (int(blockDim.x) / 32) + int(threadIdx.x) / 32;
  auto state = Op::identity();
  if (o < places.outputs)
    for (int i = lane; i < parts; i += 32) state = Op::merge(state, partial[o * parts + i]);
  state = warp_reduce(state, Merge<Op>{});
  if (lane != 0 || o >= places.outputs) return;
  i64 at[2];
  places.kept.offsets(o, at);
  op.finish(out + at[1], state);
}

// --- choosing
// -------------------------------------------------------------------------------------
struct Schedule {
  enum class Kind { naive, warp_rows, block_rows, columns } kind;
  i64 blocks;
  int threads, parts;
};

// Parts so that about 512 blocks run, each with at least `shortest` elements an output.
int parts_for(i64 blocks, i64 length, i64 shortest) {
  const i64 wanted = (512 + blocks - 1) / (blocks ? blocks : 1), most = length / shortest;
  const i64 parts = wanted < most ? wanted : most;
  return parts > 1 ? int(parts) : 1;
}

Schedule schedule_of(const ReducePlan& p) {
  using Kind = Schedule::Kind;
  const i64 outputs = p.kept.numel, length = p.reduced.numel;
  if (length <= 16) return {Kind::naive, (outputs + 127) / 128, 128, 1};
  if (p.reduced.inner_stride(0) != 1 && p.kept.inner_stride(0) == 1 && p.kept.inner() >= 16) {
    const i64 blocks = (outputs + 31) / 32;
    return {Kind::columns, blocks, kThreads, parts_for(blocks, length, 256)};
  }
  if (length <= 1024) return {Kind::warp_rows, (outputs + 3) / 4, 128, 1};
  return {Kind::block_rows, outputs, kThreads, parts_for(outputs, length, 4096)};
}

template <class Op, class Args>
void launch_naive(const Args& a, const Launch& l, const ReducePlan& plan, int threads) {
  const Op op(a);
  launch<reduce_naive<Op>>({.grid = unsigned((plan.kept.numel + threads - 1) / threads),
                            .block = unsigned(threads),
                            .stream = l.stream,
                            .op_name = l.op ? l.op->name : nullptr},
                           static_cast<typename Op::Out*>(a.out.data),
                           a.in.template as<typename Op::Element>(), op, Places(plan));
}

template <class Op, class Args>
void launch_block(const Args& a, const Launch& l, const ReducePlan& plan) {
  using Kind = Schedule::Kind;
  const Schedule s = schedule_of(plan);
  if (s.kind == Kind::naive) return launch_naive<Op>(a, l, plan, s.threads);
  const Op op(a);
  const Places places(plan);
  auto* out = static_cast<typename Op::Out*>(a.out.data);
  auto* in = a.in.template as<typename Op::Element>();
  auto* partial = s.parts > 1 ? static_cast<typename Op::State*>(l.workspace) : nullptr;
  const char* name = l.op ? l.op->name : nullptr;
  const Config config{.grid = dim3(unsigned(s.blocks), unsigned(s.parts)),
                      .block = unsigned(s.threads),
                      .stream = l.stream,
                      .op_name = name};
  if (s.kind == Kind::columns)
    launch<reduce_columns<Op>>(config, out, in, op, places, partial);
  else
    launch<reduce_rows<Op>>(config, out, in, op, places, partial,
                            s.kind == Kind::warp_rows ? 32 : s.threads);
  if (!partial) return;
  launch<reduce_parts<Op>>({.grid = unsigned((plan.kept.numel + 3) / 4),
                            .block = 128,
                            .stream = l.stream,
                            .op_name = name},
                           out, static_cast<const typename Op::State*>(partial), op, places,
                           s.parts);
}

// Calls body(T{}) with the element type; u8 and bool are one: bools are 0 or 1.
template <class Body>
void with_element(DType t, Body body) {
  switch (t) {
    case DType::f64:
      return body(double());
    case DType::f32:
      return body(float());
    case DType::f16:
      return body(__half());
    case DType::bf16:
      return body(__nv_bfloat16());
    case DType::i64:
      return body(i64());
    case DType::i32:
      return body(i32());
    default:
      return body(u8());
  }
}

template <class Args>
constexpr LoopOrder kOrder =
    std::is_same_v<Args, ArgmaxArgs> ? LoopOrder::logical : LoopOrder::memory;

template <template <class> class Op, class Args>
void naive(const Args& a, const Launch& l) {
  ReducePlan plan;
  detail::plan_reduction(plan, a.out, a.in, a.mask, kOrder<Args>);
  with_element(a.in.dtype(), [&](auto tag) { launch_naive<Op<decltype(tag)>>(a, l, plan, 256); });
}

template <template <class> class Op, class Args>
void block(const Args& a, const Launch& l) {
  ReducePlan plan;
  detail::plan_reduction(plan, a.out, a.in, a.mask, kOrder<Args>);
  with_element(a.in.dtype(), [&](auto tag) { launch_block<Op<decltype(tag)>>(a, l, plan); });
}

template <template <class> class Op, class Args>
i64 block_workspace(const Args& a) {
  ReducePlan plan;
  detail::plan_reduction(plan, a.out, a.in, a.mask, kOrder<Args>);
  const Schedule s = schedule_of(plan);
  return s.parts > 1 ? plan.kept.numel * s.parts * i64(sizeof(typename Op<double>::State)) : 0;
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, sum, SumArgs,
    {.name = "block", .rank = 10, .workspace = block_workspace<SumOf>, .launch = block<SumOf>},
    {.name = "naive", .launch = naive<SumOf>});
WT_VARIANTS(
    WT_DEVICE_NS, max, MaxArgs,
    {.name = "block", .rank = 10, .workspace = block_workspace<MaxOf>, .launch = block<MaxOf>},
    {.name = "naive", .launch = naive<MaxOf>});
WT_VARIANTS(WT_DEVICE_NS, argmax, ArgmaxArgs,
            {.name = "block",
             .rank = 10,
             .workspace = block_workspace<ArgmaxOf>,
             .launch = block<ArgmaxOf>},
            {.name = "naive", .launch = naive<ArgmaxOf>});

}  // namespace wt
