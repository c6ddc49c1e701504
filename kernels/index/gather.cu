// Gather on simt and cuda; scatter, of the same header, is in scatter.cu.
//   naive    one thread an element, coordinates by 64-bit divisions
//   batched  one thread four elements, whose loads are under way together
//   packs    the same with 16 bytes for an element, where one index is for all of them
#include "warptape/kernels/gather.h"

#include "warptape/kernels/device/bad_index.cuh"
#include "warptape/kernels/device/index_list.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/device/strided_index.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;
constexpr int kBatch = 4;

// The operands of the walk, which has the shape of out and of index. In: `in` where the index is 0.
// Place: the element's number in C order, by which a bad index is reported.
enum { Out, In, Index, Place, kOperands };

// U moves the bytes of one element, or 16 of them; offsets count in U.
template <class U, class Map>
struct Gather {
  U* out;
  const U* in;
  IndexList index;
  i64 limit, axis_step, first_place;
  MailboxRecord* mailbox;
  u32 op_id;
  i64 numel;
  Map map;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(in), f(index.at), f(mailbox);
  }
  // The index to read for a value of the list.
  __device__ __forceinline__ i64 checked(i64 value, i64 place) const {
    if (value >= 0 && value < limit) return value;
    report_bad_index(mailbox, MailboxCode::index_out_of_range, op_id, first_place + place, value,
                     limit);
    return 0;
  }
};

template <class U>
__global__ void __launch_bounds__(kThreads)
    gather_naive(const __grid_constant__ Gather<U, IndexMap64<kOperands>> a) {
  const i64 i = i64(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.numel) return;
  // Neighbouring threads write neighbours, which is right. What is slow: a 64-bit division a
  // dimension, dozens of instructions each; and two loads of which the second waits for the first,
  // with nothing else of this thread under way.
  i64 at[kOperands];
  a.map.offsets(i, at);
  const i64 from = a.checked(a.index[at[Index]], at[Place]);
  // An axis of nothing has no first element to stand in.
  if (a.limit > 0) a.out[at[Out]] = a.in[at[In] + from * a.axis_step];
}

template <class U>
__global__ void __launch_bounds__(kThreads)
    gather_batched(const __grid_constant__ Gather<U, IndexMap<kOperands>> a) {
  // A thread's elements are a block apart, so that in each turn lanes are neighbours.
  const i64 first = i64(blockIdx.x) * (kThreads * kBatch) + threadIdx.x;
  i32 at[kBatch][kOperands];
  i64 from[kBatch];
  U value[kBatch];
  // Three loops instead of one: the four indices are asked for before the first is looked at, and
  // the four elements before the first is stored. The wait for memory, hundreds of cycles twice, is
  // paid for four.
#pragma unroll
  for (int k = 0; k < kBatch; ++k) {
    const i64 i = first + k * kThreads;
    from[k] = 0;
    if (i < a.numel) {
      a.map.offsets(u32(i), at[k]);
      from[k] = a.index[at[k][Index]];
    }
  }
  if (a.limit == 0) {  // the same for all: every index is bad, and nothing can be read
    if (first < a.numel) a.checked(from[0], at[0][Place]);
    return;
  }
#pragma unroll
  for (int k = 0; k < kBatch; ++k)
    if (first + k * kThreads < a.numel) {
      const U* p = a.in + at[k][In] + a.checked(from[k], at[k][Place]) * a.axis_step;
      if constexpr (sizeof(U) == 16)
        value[k] = vload<U>(p);
      else
        value[k] = *p;
    }
#pragma unroll
  for (int k = 0; k < kBatch; ++k)
    if (first + k * kThreads < a.numel) {
      if constexpr (sizeof(U) == 16)
        vstore(a.out + at[k][Out], value[k]);
      else
        a.out[at[k][Out]] = value[k];
    }
}

// --- host side ---

i64 axis_size(const View& v, int axis) { return v.ndim() == 0 ? 1 : v.size(axis); }
i64 axis_step(const View& v, int axis) { return v.ndim() == 0 ? 0 : v.stride(axis); }

LoopNest<kOperands> gather_nest(const GatherArgs& a) {
  Geometry in = *a.out.geometry, place = in;
  i64 step = 1;
  for (int d = in.ndim; d-- > 0;) {
    in.strides[d] = d == a.axis ? 0 : a.in.stride(d);
    place.strides[d] = step;
    step *= place.shape[d];
  }
  // In the order of out's memory: writes are in a row whatever its layout.
  return loop_nest<kOperands>({a.out, {a.in.data, &in}, a.index, {nullptr, &place}},
                              LoopOrder::memory);
}

template <class U, class Map>
Gather<U, Map> gather_args(const GatherArgs& a, const Map& map, i64 numel,
                           const i64 (&first)[kOperands]) {
  const i64 index_size = item_size(a.index.dtype());
  const i64 per_unit = i64(sizeof(U)) / item_size(a.out.dtype());
  return {a.out.as<U>() + first[Out],
          a.in.as<const U>() + first[In],
          {a.index.as<const char>() + first[Index] * index_size, a.index.dtype() == DType::i64},
          axis_size(a.in, a.axis),
          axis_step(a.in, a.axis) / per_unit,
          first[Place],
          a.mailbox,
          a.op_id,
          numel,
          map};
}

void launch_naive(const GatherArgs& a, const Launch& l) {
  const LoopNest<kOperands> nest = gather_nest(a);
  with_unit(item_size(a.out.dtype()), [&](auto tag) {
    using U = typename decltype(tag)::type;
    launch<gather_naive<U>>(grid_of(l, ceil_div(nest.numel, kThreads), kThreads),
                            gather_args<U>(a, index_map_64(nest), nest.numel, {}));
  });
}

template <class U>
void launch_parts(const GatherArgs& a, const Launch& l, const LoopNest<kOperands>& all) {
  const i64 zero[kOperands] = {};
  for_each_part(
      all, zero, 0, [&](const LoopNest<kOperands>& nest, const i64(&first)[kOperands], i64) {
        launch<gather_batched<U>>(grid_of(l, ceil_div(nest.numel, kThreads * kBatch), kThreads),
                                  gather_args<U>(a, index_map_32(nest), nest.numel, first));
      });
}
void launch_batched(const GatherArgs& a, const Launch& l) {
  with_unit(item_size(a.out.dtype()),
            [&](auto tag) { launch_parts<typename decltype(tag)::type>(a, l, gather_nest(a)); });
}

// The walk in units of 16 bytes; false where it has none.
bool in_packs(const GatherArgs& a, LoopNest<kOperands>& nest) {
  const i64 pack = 16 / item_size(a.out.dtype());
  if (nest.ndim == 0 || nest.numel == 0 || nest.size[0] % pack != 0 || nest.stride[Out][0] != 1 ||
      nest.stride[In][0] != 1 || nest.stride[Index][0] != 0 || !aligned_16(a.out.data) ||
      !aligned_16(a.in.data) || axis_step(a.in, a.axis) % pack != 0)
    return false;
  nest.size[0] /= pack;
  nest.numel /= pack;
  nest.stride[Place][0] *= pack;  // of a pack's first element
  for (int d = 1; d < nest.ndim; ++d)
    for (int k = Out; k <= In; ++k) {
      if (nest.stride[k][d] % pack != 0) return false;
      nest.stride[k][d] /= pack;
    }
  return true;
}
const char* why_not_packs(const GatherArgs& a) {
  LoopNest<kOperands> nest = gather_nest(a);
  return in_packs(a, nest) ? nullptr
                           : "one index must be for whole 16-byte packs of neighbours, and the "
                             "tensors begin at 16-byte boundaries";
}
void launch_packs(const GatherArgs& a, const Launch& l) {
  LoopNest<kOperands> nest = gather_nest(a);
  in_packs(a, nest);
  launch_parts<Pack16<u32>>(a, l, nest);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, gather, GatherArgs,
            {.name = "packs", .rank = 30, .why_not = why_not_packs, .launch = launch_packs},
            {.name = "batched", .rank = 20, .launch = launch_batched},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
