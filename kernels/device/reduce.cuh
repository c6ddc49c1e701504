// The kernels of reductions on simt and cuda.
//   naive  a thread an output, one element after the other
//   block  a warp or a block an output (or 32 neighbouring outputs), loads that coalesce, the
//          reduction of few long outputs split over blocks and finished by a second kernel
#pragma once
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/strided_index.cuh"
#include "warptape/kernels/device/vector.cuh"
#include "warptape/kernels/reduce.h"

namespace wt {

// Found by its argument: what device/block_reduce.cuh shuffles, member by member.
namespace red {
template <class C>
static __device__ __forceinline__ Candidate<C> shuffle_xor(Candidate<C> c, int lanes) {
  return {wt::shuffle_xor(c.value, lanes), wt::shuffle_xor(c.place, lanes)};
}
template <class C>
static __device__ __forceinline__ Spread<C> shuffle_xor(Spread<C> s, int lanes) {
  return {wt::shuffle_xor(s.count, lanes), wt::shuffle_xor(s.mean, lanes),
          wt::shuffle_xor(s.squares, lanes)};
}
template <class C>
static __device__ __forceinline__ Scaled<C> shuffle_xor(Scaled<C> s, int lanes) {
  return {wt::shuffle_xor(s.largest, lanes), wt::shuffle_xor(s.sum, lanes)};
}
}  // namespace red

inline namespace WT_DEVICE_NS {
namespace {

using detail::ReducePlan;

template <class F, class C>
using StateOf = typename F::template State<C>;

template <class F, class C>
struct Merge {
  using State = StateOf<F, C>;
  __device__ __forceinline__ State operator()(State a, State b) const {
    return F::template merge<C>(a, b);
  }
};

// --- what the elements are ---
// A source has ComputeType, what an element becomes, Element, what is loaded at once (void: it is
// told at run time, one after the other), and load(). Few instantiations keep the compile time
// down: integers are one source, and so is every float where a thread has few elements.
template <class T>
struct Typed {
  using Element = T;
  using ComputeType = wt::ComputeType<T>;
  const T* p;
  explicit Typed(const View& v) : p(v.as<T>()) {}
  __device__ __forceinline__ ComputeType load(i64 at) const {
    return static_cast<ComputeType>(p[at]);
  }
};
struct Integers {
  using Element = void;
  using ComputeType = i64;
  const void* p;
  int size;  // u8 and bool are one: bools are 0 or 1
  explicit Integers(const View& v) : p(v.data), size(int(item_size(v.dtype()))) {}
  __device__ __forceinline__ i64 load(i64 at) const {
    // The same for all threads: the branch costs an instruction a load, and a kernel per integer
    // type would cost nvcc and the binary three times as much.
    if (size == 1) return static_cast<const u8*>(p)[at];
    if (size == 4) return static_cast<const i32*>(p)[at];
    return static_cast<const i64*>(p)[at];
  }
};
struct Floats {  // f32, f16, bf16
  using Element = void;
  using ComputeType = float;
  const void* p;
  DType dtype;
  explicit Floats(const View& v) : p(v.data), dtype(v.dtype()) {}
  __device__ __forceinline__ float load(i64 at) const {
    // For the kernels in which a thread has few elements; long rows are read in packs, with the
    // type known.
    if (dtype == DType::f32) return static_cast<const float*>(p)[at];
    if (dtype == DType::f16) return static_cast<float>(static_cast<const __half*>(p)[at]);
    return static_cast<float>(static_cast<const __nv_bfloat16*>(p)[at]);
  }
};
// Not zero when the element is not, whatever its dtype.
struct Bits {
  using Element = void;
  using ComputeType = i64;
  const void* p;
  int size;
  i64 keep;  // all bits but the sign of a float
  explicit Bits(const View& v)
      : p(v.data),
        size(int(item_size(v.dtype()))),
        keep(is_floating(v.dtype()) ? i64(~u64(0) >> (65 - 8 * size)) : i64(-1)) {}
  __device__ __forceinline__ i64 load(i64 at) const {
    if (size == 1) return static_cast<const u8*>(p)[at];
    if (size == 2) return static_cast<const u16*>(p)[at] & keep;
    if (size == 4) return static_cast<const i32*>(p)[at] & keep;
    return static_cast<const i64*>(p)[at] & keep;
  }
};

// --- where the results go ---
struct Target {
  void* p;
  DType dtype;
  explicit Target(const View& v) : p(v.data), dtype(v.dtype()) {}

  __device__ __forceinline__ void store(i64 at, double v) const { static_cast<double*>(p)[at] = v; }
  __device__ __forceinline__ void store(i64 at, float v) const {
    if (dtype == DType::f32)
      static_cast<float*>(p)[at] = v;
    else if (dtype == DType::f16)
      static_cast<__half*>(p)[at] = __half(v);
    else
      static_cast<__nv_bfloat16*>(p)[at] = __nv_bfloat16(v);
  }
  __device__ __forceinline__ void store(i64 at, i64 v) const {
    if (dtype == DType::i64)
      static_cast<i64*>(p)[at] = v;
    else if (dtype == DType::i32)
      static_cast<i32*>(p)[at] = i32(v);
    else
      static_cast<u8*>(p)[at] = u8(v);
  }
  __device__ __forceinline__ void store(i64 at, bool v) const { static_cast<bool*>(p)[at] = v; }

  __device__ __forceinline__ double load(i64 at, double) const {
    return static_cast<const double*>(p)[at];
  }
  __device__ __forceinline__ float load(i64 at, float) const {
    if (dtype == DType::f32) return static_cast<const float*>(p)[at];
    if (dtype == DType::f16) return static_cast<float>(static_cast<const __half*>(p)[at]);
    return static_cast<float>(static_cast<const __nv_bfloat16*>(p)[at]);
  }
  __device__ __forceinline__ i64 load(i64 at, i64) const { return static_cast<const i64*>(p)[at]; }
};

template <class C, class F, class State>
__device__ __forceinline__ void finish(const Target& out, i64 at, const F& f, State s) {
  auto y = f.template finish<C>(s);
  // The old value is read by the one thread that writes the new one: no atomic, no second pass.
  if constexpr (F::kAccumulates)
    if (f.accumulate) y = pw::plus(out.load(at, y), y);
  out.store(at, y);
}

// --- where the elements lie ---
template <int N>
struct AnyMap {
  // Decided on the host for the whole call. 64-bit division is dozens of instructions, and only
  // tensors of 2^31 elements need it.
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
    // Nearly always: one multiplication where a division a dimension would be.
    if (step) return i * step;
    i64 at[1];
    reduced.offsets(i, at);
    return at[0];
  }
};

// --- naive ---
constexpr int kThreads = 256;

template <class F, class Source>
__global__ void __launch_bounds__(kThreads)
    reduce_naive(Target out, Source in, F f, Places places) {
  using C = typename Source::ComputeType;
  const i64 o = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (o >= places.outputs) return;
  i64 at[2];
  places.kept.offsets(o, at);
  // One after the other: the length of the row is the time the kernel takes, and with the reduced
  // axis innermost neighbouring threads read a row apart. With few elements an output both do not
  // matter.
  auto state = F::template identity<C>();
  for (i64 i = 0; i < places.length; ++i)
    f.template take<C>(state, in.load(at[0] + places.element(i)), i);
  finish<C>(out, at[1], f, state);
}

// --- rows: `group` threads (a warp or the block) share an output ---
// Elements [begin, end) of the output that starts at `start`, every group-th of them.
template <class F, class Source, class State>
__device__ void reduce_strip(State& state, const Source& in, i64 start, const F& f,
                             const Places& places, i64 begin, i64 end, int lane, int group) {
  using C = typename Source::ComputeType;
  if constexpr (!std::is_void_v<typename Source::Element>) {
    using T = typename Source::Element;
    // A single state would make every addition wait for the one before, some four cycles each. Four
    // chains are in flight together; which element goes to which is fixed, and so is their order at
    // the end.
    constexpr int kEach = int(16 / sizeof(T)), kChains = kEach < 4 ? kEach : 4;
    const T* p = in.p + start;
    if (places.step == 1 && aligned_16(p + begin)) {
      State states[kChains];
      for (int k = 0; k < kChains; ++k) states[k] = F::template identity<C>();
      i64 i = begin + i64(lane) * kEach;
      // Two 16-byte loads a thread before the first is needed: 1 KiB a warp under way.
#pragma unroll 2
      for (; i + kEach <= end; i += i64(group) * kEach) {
        T v[kEach];
        load_vector(v, p + i);
#pragma unroll
        for (int k = 0; k < kEach; ++k)
          f.template take<C>(states[k % kChains], static_cast<C>(v[k]), i + k);
      }
      for (int k = 0; k < kChains; ++k) state = F::template merge<C>(state, states[k]);
      // What is left is less than a pack; it goes through the loop below.
      begin = end - (end - begin) % kEach;
    }
  }
#pragma unroll 4
  for (i64 i = begin + lane; i < end; i += group)
    f.template take<C>(state, in.load(start + places.element(i)), i);
}

// The part of a reduction that block row blockIdx.y of gridDim.y does; parts begin at multiples of
// 16 elements.
struct Part {
  i64 begin, end;
  __device__ __forceinline__ explicit Part(i64 length) {
    // Multiples of 16 elements: parts of an aligned row are aligned for any type.
    const i64 each = ((length + gridDim.y - 1) / gridDim.y + 15) / 16 * 16;
    begin = each * blockIdx.y < length ? each * blockIdx.y : length;
    end = length - begin < each ? length : begin + each;
  }
};

// partial[output][part], or null: one part, which is finished here.
template <class F, class Source>
__global__ void __launch_bounds__(kThreads)
    reduce_rows(Target out, Source in, F f, Places places,
                StateOf<F, typename Source::ComputeType>* partial, int group) {
  using C = typename Source::ComputeType;
  const int lane = int(threadIdx.x) % group;
  const i64 o = i64(blockIdx.x) * (int(blockDim.x) / group) + int(threadIdx.x) / group;
  auto state = F::template identity<C>();
  i64 at[2] = {0, 0};
  if (o < places.outputs) {
    const Part part(places.length);
    places.kept.offsets(o, at);
    reduce_strip(state, in, at[0], f, places, part.begin, part.end, lane, group);
  }
  // Also by threads without an output: all 32 lanes must take part in a shuffle, and all threads of
  // the block in its barriers. Before this, only loads have happened.
  state = group == 32 ? warp_reduce(state, Merge<F, C>{}) : block_reduce(state, Merge<F, C>{});
  if (lane != 0 || o >= places.outputs) return;
  if (partial)
    // Not atomicAdd: the parts are added by the second pass in their order, the same bits at every
    // run.
    partial[o * gridDim.y + blockIdx.y] = state;
  else
    finish<C>(out, at[1], f, state);
}

// --- columns: 32 neighbouring outputs a block, a warp a row ---
constexpr int kRowsAtOnce = kThreads / 32;

template <class F, class Source>
__global__ void __launch_bounds__(kThreads)
    reduce_columns(Target out, Source in, F f, Places places,
                   StateOf<F, typename Source::ComputeType>* partial) {
  using C = typename Source::ComputeType;
  using State = StateOf<F, C>;
  // The kept axis is innermost, so a row of neighbouring outputs is a row of neighbouring elements:
  // each warp's load is 128 bytes in a row (f32), and no two threads of a warp share an output.
  WT_SHARED(State, tile, [kRowsAtOnce][32]);
  const int column = int(threadIdx.x) % 32, row = int(threadIdx.x) / 32;
  const i64 o = i64(blockIdx.x) * 32 + column;
  auto state = F::template identity<C>();
  i64 at[2] = {0, 0};
  if (o < places.outputs) {
    const Part part(places.length);
    places.kept.offsets(o, at);
    // Four rows of the warp are under way at once; the arithmetic of a sum alone would not fill the
    // wait.
#pragma unroll 4
    for (i64 i = part.begin + row; i < part.end; i += kRowsAtOnce)
      f.template take<C>(state, in.load(at[0] + places.element(i)), i);
  }
  tile[row][column] = state;
  __syncthreads();
  // Warp 0 merges the eight rows, in order, a column a lane. Returning is safe here: no barrier
  // follows.
  if (row != 0 || o >= places.outputs) return;
  for (int r = 1; r < kRowsAtOnce; ++r) state = F::template merge<C>(state, tile[r][column]);
  if (partial)
    partial[o * gridDim.y + blockIdx.y] = state;
  else
    finish<C>(out, at[1], f, state);
}

// --- the second pass: a warp an output ---
template <class F, class C>
__global__ void __launch_bounds__(128)
    reduce_parts(Target out, const StateOf<F, C>* partial, F f, Places places, int parts) {
  const int lane = int(threadIdx.x) % 32;
  const i64 o = i64(blockIdx.x) * (int(blockDim.x) / 32) + int(threadIdx.x) / 32;
  auto state = F::template identity<C>();
  if (o < places.outputs)
    // A kernel of its own: blocks cannot wait for each other, and the end of a kernel is when all
    // of them have written. Lane l takes the parts l, l + 32, ..., then a butterfly: a fixed order.
    for (int i = lane; i < parts; i += 32)
      state = F::template merge<C>(state, partial[o * parts + i]);
  state = warp_reduce(state, Merge<F, C>{});
  if (lane != 0 || o >= places.outputs) return;
  i64 at[2];
  places.kept.offsets(o, at);
  finish<C>(out, at[1], f, state);
}

// --- choosing ---
struct Schedule {
  enum class Walk { naive, warp_rows, block_rows, columns } walk;
  i64 blocks;
  int threads, parts;
};

// Parts so that about 512 blocks run, each with at least `shortest` elements an output.
int parts_for(i64 blocks, i64 length, i64 shortest) {
  // 512 blocks of 256 threads are half of what an H100 holds: its memory is busy, and the parts
  // stay few.
  const i64 wanted = (512 + blocks - 1) / (blocks ? blocks : 1), most = length / shortest;
  const i64 parts = wanted < most ? wanted : most;
  return parts > 1 ? int(parts) : 1;
}

Schedule schedule_of(const ReducePlan& p) {
  using Walk = Schedule::Walk;
  const i64 outputs = p.kept.numel, length = p.reduced.numel;
  // A warp an output would have half its lanes without an element.
  if (length <= 16) return {Walk::naive, (outputs + 127) / 128, 128, 1};
  // What decides is which axis has stride 1: neighbouring threads must read along that one.
  if (p.reduced.inner_stride(0) != 1 && p.kept.inner_stride(0) == 1 && p.kept.inner() >= 16) {
    const i64 blocks = (outputs + 31) / 32;
    return {Walk::columns, blocks, kThreads, parts_for(blocks, length, 256)};
  }
  // A block an output pays two barriers and eight partial sums; a warp has 32 elements a lane at
  // most here.
  if (length <= 1024) return {Walk::warp_rows, (outputs + 3) / 4, 128, 1};
  return {Walk::block_rows, outputs, kThreads, parts_for(outputs, length, 4096)};
}

const char* name_of(const Launch& l) { return l.op ? l.op->name : nullptr; }

template <class F, class Source>
void launch_naive(const ReduceArgs<F>& a, const Launch& l, const ReducePlan& plan, int threads) {
  launch<reduce_naive<F, Source>>({.grid = unsigned((plan.kept.numel + threads - 1) / threads),
                                   .block = unsigned(threads),
                                   .stream = l.stream,
                                   .op_name = name_of(l)},
                                  Target(a.out), Source(a.in), a.f, Places(plan));
}

template <class F, class Source>
void launch_block(const ReduceArgs<F>& a, const Launch& l, const ReducePlan& plan,
                  const Schedule& s) {
  using C = typename Source::ComputeType;
  using State = StateOf<F, C>;
  const Places places(plan);
  State* const partial = s.parts > 1 ? static_cast<State*>(l.workspace) : nullptr;
  const Config config{.grid = dim3(unsigned(s.blocks), unsigned(s.parts)),
                      .block = unsigned(s.threads),
                      .stream = l.stream,
                      .op_name = name_of(l)};
  if (s.walk == Schedule::Walk::columns)
    launch<reduce_columns<F, Source>>(config, Target(a.out), Source(a.in), a.f, places, partial);
  else
    launch<reduce_rows<F, Source>>(config, Target(a.out), Source(a.in), a.f, places, partial,
                                   s.walk == Schedule::Walk::warp_rows ? 32 : s.threads);
  if (!partial) return;
  launch<reduce_parts<F, C>>({.grid = unsigned((plan.kept.numel + 3) / 4),
                              .block = 128,
                              .stream = l.stream,
                              .op_name = name_of(l)},
                             Target(a.out), static_cast<const State*>(partial), a.f, places,
                             s.parts);
}

template <class F>
void naive_with(const ReduceArgs<F>& a, const Launch& l, const ReducePlan& plan, int threads) {
  if constexpr (std::is_same_v<F, red::Truth>) {
    launch_naive<F, Bits>(a, l, plan, threads);
  } else {
    const DType t = a.in.dtype();
    if (t == DType::f64) return launch_naive<F, Typed<double>>(a, l, plan, threads);
    if (is_floating(t)) return launch_naive<F, Floats>(a, l, plan, threads);
    if constexpr (F::kIntegers) launch_naive<F, Integers>(a, l, plan, threads);
  }
}

template <class F>
void naive(const ReduceArgs<F>& a, const Launch& l) {
  ReducePlan plan;
  detail::plan_reduction(plan, a);
  naive_with(a, l, plan, 256);
}

template <class F>
const char* block_why_not(const ReduceArgs<F>& a) {
  return F::kLongF64 || std::is_same_v<F, red::Truth> || a.in.dtype() != DType::f64
             ? nullptr
             : "it takes no f64";
}

template <class F>
void block(const ReduceArgs<F>& a, const Launch& l) {
  ReducePlan plan;
  detail::plan_reduction(plan, a);
  const Schedule s = schedule_of(plan);
  if (s.walk == Schedule::Walk::naive) return naive_with(a, l, plan, s.threads);
  if constexpr (std::is_same_v<F, red::Truth>) {
    launch_block<F, Bits>(a, l, plan, s);
  } else {
    const DType t = a.in.dtype();
    if (t == DType::f32) return launch_block<F, Typed<float>>(a, l, plan, s);
    if (t == DType::f16) return launch_block<F, Typed<__half>>(a, l, plan, s);
    if (t == DType::bf16) return launch_block<F, Typed<__nv_bfloat16>>(a, l, plan, s);
    if constexpr (F::kLongF64)
      if (t == DType::f64) return launch_block<F, Typed<double>>(a, l, plan, s);
    if constexpr (F::kIntegers) launch_block<F, Integers>(a, l, plan, s);
  }
}

template <class F>
i64 block_workspace(const ReduceArgs<F>& a) {
  ReducePlan plan;
  detail::plan_reduction(plan, a);
  const Schedule s = schedule_of(plan);
  return s.parts > 1 ? plan.kept.numel * s.parts * i64(sizeof(StateOf<F, double>)) : 0;
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_REDUCE_DEVICE_ROWS(contract, Entry)                \
  WT_VARIANTS(WT_DEVICE_NS, contract, ReduceArgs<red::Entry>, \
              {.name = "block",                               \
               .rank = 10,                                    \
               .why_not = block_why_not<red::Entry>,          \
               .workspace = block_workspace<red::Entry>,      \
               .launch = block<red::Entry>},                  \
              {.name = "naive", .launch = naive<red::Entry>});

}  // namespace wt
