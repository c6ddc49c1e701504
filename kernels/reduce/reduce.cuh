// The kernels of reductions on simt and cuda.
//   naive  a thread an output, one element after the other
//   block  a warp or a block an output (or 32 to 64 neighbouring outputs), loads that coalesce, the
//          reduction of few long outputs split over blocks and finished by a second kernel
#pragma once
#include "warptape/kernels/reduce/reduce_operands.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// How an output takes its elements, of which the one at `start` is the first. A load a thread,
// which all threads of an output share, where the entry wants it.
template <class F, class Source>
__device__ __forceinline__ auto relative_to_first(const F& f, const Source& in, i64 start,
                                                  i64 length) {
  using C = typename Source::ComputeType;
  C first = C(0);
  if constexpr (F::kFromFirst)
    if (length > 0) first = in.load(start);
  return red::RelativeTo<F, C>{f, first};
}

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
  const auto from = relative_to_first(f, in, at[0], places.length);
  for (i64 i = 0; i < places.length; ++i) from.take(state, in.load(at[0] + places.element(i)), i);
  finish<C>(out, at[1], f, state);
}

// --- rows: `group` threads (a warp or the block) share an output ---
// Elements [begin, end) of the output that starts at `start`, every group-th of them.
template <class F, class Source, class State>
__device__ void reduce_strip(State& state, const Source& in, i64 start, const F& f,
                             const Places& places, i64 begin, i64 end, int lane, int group) {
  using C = typename Source::ComputeType;
  const auto from = relative_to_first(f, in, start, places.length);
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
        for (int k = 0; k < kEach; ++k) from.take(states[k % kChains], static_cast<C>(v[k]), i + k);
      }
      for (int k = 0; k < kChains; ++k) state = F::template merge<C>(state, states[k]);
      // What is left is less than a pack; it goes through the loop below.
      begin = end - (end - begin) % kEach;
    }
  }
#pragma unroll 4
  for (i64 i = begin + lane; i < end; i += group)
    from.take(state, in.load(start + places.element(i)), i);
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

// --- columns: the kept axis is innermost, so neighbouring outputs have neighbouring elements ---
// A thread has V neighbouring outputs; V = 1: any columns; else V elements are 16 bytes, and so is
// each load.
template <class Source>
constexpr int kColumnPack = 1;
template <>
constexpr int kColumnPack<Typed<float>> = 4;
template <>
constexpr int kColumnPack<Typed<__half>> = 8;
template <>
constexpr int kColumnPack<Typed<__nv_bfloat16>> = 8;
template <class F>
constexpr bool kHasPacks = !std::is_same_v<F, red::Truth>;  // reads bits of any type
template <int V>
struct ColumnTile {
  // 128 bytes of a row (f32) either way: a warp reads one row, or four rows in packs.
  static constexpr int kAcross = V == 1 ? 32 : 8;   // threads
  static constexpr int kOutputs = kAcross * V;      // of a block
  static constexpr int kRows = kThreads / kAcross;  // that a block reads at once
  static constexpr int kAhead = V == 1 ? 8 : 4;     // loads of a thread under way
};

// The elements of one row that a thread reads at once, as they lie in memory.
template <int V, class Source>
struct ColumnElements {
  static constexpr bool kTyped = !std::is_void_v<typename Source::Element>;
  using C = typename Source::ComputeType;
  std::conditional_t<kTyped, typename Source::Element, C> v[V];
  __device__ __forceinline__ void load(const Source& in, i64 at) {
    if constexpr (kTyped)
      load_vector(v, in.p + at);
    else
      v[0] = in.load(at);
  }
};

template <int V, class F, class Source, class State>
__device__ __forceinline__ void reduce_column_strip(State (&states)[V], const Source& in, i64 start,
                                                    const F& f, const Places& places, i64 begin,
                                                    i64 end) {
  using C = typename Source::ComputeType;
  constexpr int kRows = ColumnTile<V>::kRows, kAhead = ColumnTile<V>::kAhead;
  ColumnElements<V, Source> row[kAhead], first;
  if constexpr (F::kFromFirst) {
    if (begin >= end) return;
    first.load(in, start);
  }
  const auto take = [&](const ColumnElements<V, Source>& r, i64 i) WT_INLINE_LAMBDA {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const C from = F::kFromFirst ? static_cast<C>(first.v[j]) : C(0);
      red::RelativeTo<F, C>{f, from}.take(states[j], static_cast<C>(r.v[j]), i);
    }
  };
  i64 i = begin;
  // All loads of a turn are asked for before the first is used. Left to the compiler they were not:
  // between two of them stood the branch for a reduced axis in several pieces, and memory was
  // waited for once a row. V = 1 of 16-bit floats has 16 bytes a thread under way, packs 64.
  for (; i + (kAhead - 1) * kRows < end; i += kAhead * kRows) {
    i64 at[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) at[k] = start + places.element(i + k * kRows);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) row[k].load(in, at[k]);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) take(row[k], i + k * kRows);
  }
  for (; i < end; i += kRows) {
    row[0].load(in, start + places.element(i));
    take(row[0], i);
  }
}

template <class F, class Source, int V>
__global__ void __launch_bounds__(kThreads)
    reduce_columns(Target out, Source in, F f, Places places,
                   StateOf<F, typename Source::ComputeType>* partial) {
  using C = typename Source::ComputeType;
  using State = StateOf<F, C>;
  using Tile = ColumnTile<V>;
  WT_SHARED(State, tile, [kThreads / 32][Tile::kOutputs]);
  const int across = int(threadIdx.x) % Tile::kAcross, row = int(threadIdx.x) / Tile::kAcross;
  const i64 first = i64(blockIdx.x) * Tile::kOutputs;
  State states[V];
#pragma unroll
  for (int j = 0; j < V; ++j) states[j] = F::template identity<C>();
  i64 at[2] = {0, 0};
  if (first + across * V < places.outputs) {
    const Part part(places.length);
    places.kept.offsets(first + across * V, at);
    reduce_column_strip<V>(states, in, at[0], f, places, part.begin + row, part.end);
  }
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int j = 0; j < V; ++j) {
    // The rows of a warp are merged in its registers: a quarter of the shared memory, and of the
    // turns of the loop at the end.
#pragma unroll
    for (int lanes = Tile::kAcross; lanes < 32; lanes *= 2)
      states[j] = F::template merge<C>(states[j], shuffle_xor(states[j], lanes));
    if (lane < Tile::kAcross) tile[threadIdx.x / 32][across * V + j] = states[j];
  }
  __syncthreads();
  // A thread an output merges the eight warps' states, in order. Returning is safe here: no barrier
  // follows.
  const i64 o = first + threadIdx.x;
  if (threadIdx.x >= Tile::kOutputs || o >= places.outputs) return;
  State state = tile[0][threadIdx.x];
  for (int w = 1; w < kThreads / 32; ++w) state = F::template merge<C>(state, tile[w][threadIdx.x]);
  if (partial) {
    partial[o * gridDim.y + blockIdx.y] = state;
    return;
  }
  places.kept.offsets(o, at);
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
  enum class Walk { naive, warp_rows, block_rows, columns, packed_columns } walk;
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

// Every row of columns can be read in 16-byte packs.
bool columns_in_packs(const ReducePlan& p, const View& in) {
  if (!is_floating(in.dtype()) || in.dtype() == DType::f64 || !aligned_16(in.data)) return false;
  const i64 pack = 16 / item_size(in.dtype());
  if (p.kept.inner() % pack != 0 || p.reduced.ndim > 1 || p.reduced.inner_stride(0) % pack != 0)
    return false;
  for (int d = 1; d < p.kept.ndim; ++d)
    if (p.kept.stride[0][d] % pack != 0) return false;
  return true;
}

// packs: the kernels know the elements' type.
Schedule schedule_of(const ReducePlan& p, const View& in, bool packs) {
  using Walk = Schedule::Walk;
  const i64 outputs = p.kept.numel, length = p.reduced.numel;
  // A warp an output would have half its lanes without an element.
  if (length <= 16) return {Walk::naive, (outputs + 127) / 128, 128, 1};
  // What decides is which axis has stride 1: neighbouring threads must read along that one.
  if (p.reduced.inner_stride(0) != 1 && p.kept.inner_stride(0) == 1 && p.kept.inner() >= 16) {
    const bool packed = packs && columns_in_packs(p, in);
    const i64 each = packed ? 8 * 16 / item_size(in.dtype()) : 32;  // ColumnTile::kOutputs
    const i64 blocks = (outputs + each - 1) / each;
    return {packed ? Walk::packed_columns : Walk::columns, blocks, kThreads,
            parts_for(blocks, length, 256)};
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
    launch<reduce_columns<F, Source, 1>>(config, Target(a.out), Source(a.in), a.f, places, partial);
  else if (s.walk == Schedule::Walk::packed_columns)
    launch<reduce_columns<F, Source, kColumnPack<Source>>>(config, Target(a.out), Source(a.in), a.f,
                                                           places, partial);
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
  const Schedule s = schedule_of(plan, a.in, kHasPacks<F>);
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
  const Schedule s = schedule_of(plan, a.in, kHasPacks<F>);
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
