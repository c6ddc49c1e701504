// Gather and scatter on the cpu.
#include "warptape/kernels/gather.h"

#include <cstring>

#include "warptape/kernels/common/axis_loops.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/strided.h"
#include "warptape/kernels/index/gather_cpu.h"
#include "warptape/kernels/index/indices.h"

namespace wt {
namespace {

i64 axis_size(const View& v, int axis) { return v.ndim() == 0 ? 1 : v.size(axis); }

// The logical position in `shape` of element `distinct` of the same tensor seen without its
// repetitions.
i64 logical_position(i64 distinct, const Geometry& without, const Geometry& shape) {
  i64 position = 0, scale = 1;
  for (int d = shape.ndim; d-- > 0;) {
    position += distinct % without.shape[d] * scale;
    distinct /= without.shape[d];
    scale *= shape.shape[d];
  }
  return position;
}

// Every distinct index lies in [0, limit); raises the mailbox for the first one that does not.
bool good_indices(const View& index, i64 limit, MailboxRecord* mailbox, u32 op_id) {
  if (!mailbox || index.numel() == 0) return true;
  Geometry distinct = *index.geometry;
  for (int d = 0; d < distinct.ndim; ++d)
    if (distinct.strides[d] == 0) distinct.shape[d] = 1;
  finish_geometry(distinct);
  const LoopNest<1> nest = loop_nest<1>({{index.data, &distinct}});
  const IndexReader read(index);
  const i64 n = nest.inner(), step = nest.inner_stride(0);
  i64 seen = 0;
  for_each_row(nest, [&](const i64(&at)[1]) {
    for (i64 i = 0; i < n && mailbox->raised == 0; ++i, ++seen)
      if (const i64 value = read(at[0] + i * step); value < 0 || value >= limit)
        *mailbox = {i32(MailboxCode::index_out_of_range), op_id,
                    logical_position(seen, distinct, *index.geometry), value, limit};
  });
  return mailbox->raised == 0;
}

// Calls f(at0, at1, n, step0, step1) for runs of n elements that belong together in operands 0 and
// 1 of `l`, of which operand `Indexed` has its place along the axis from operand 2, the index.
template <int Indexed, class F>
void over_runs(const AxisLoops<3>& l, const AxisPart& p, const IndexReader& read, F&& f) {
  constexpr int kOther = 1 - Indexed, kIndex = 2;
  const bool one_index = l.inner_step[kIndex] == 0;  // for the whole run
  const i64 width = p.inner_end - p.inner_begin;
  const i64 runs = one_index ? 1 : width, n = one_index ? width : 1;
  for (i64 o = p.outer_begin; o < p.outer_end; ++o) {
    i64 start[3];
    for (int k = 0; k < 3; ++k) start[k] = l.start(k, o) + p.inner_begin * l.inner_step[k];
    for (i64 j = 0; j < l.rows.length; ++j)
      for (i64 r = 0; r < runs; ++r) {
        const i64 index = read(start[kIndex] + j * l.axis_step(kIndex) + r * l.inner_step[kIndex]);
        i64 at[2];
        at[kOther] = start[kOther] + j * l.axis_step(kOther) + r * l.inner_step[kOther];
        at[Indexed] = start[Indexed] + index * l.axis_step(Indexed) + r * l.inner_step[Indexed];
        f(at[0], at[1], n, l.inner_step[0], l.inner_step[1]);
      }
  }
}

template <class U>
void copy_run(U* to, const U* from, i64 n, i64 to_step, i64 from_step) {
  if (n > 4 && to_step == 1 && from_step == 1)
    std::memcpy(to, from, size_t(n) * sizeof(U));
  else
    for (i64 c = 0; c < n; ++c) to[c * to_step] = from[c * from_step];
}

// By the size of an element, for what only moves them.
template <class F>
void dispatch_size(DType t, F&& f) {
  switch (item_size(t)) {
    case 1:
      return f.template operator()<u8>();
    case 2:
      return f.template operator()<u16>();
    case 4:
      return f.template operator()<u32>();
    default:
      return f.template operator()<u64>();
  }
}

void gather_reference(const GatherArgs& a, const Launch&) {
  if (!gather_begin(a)) return;
  const AxisLoops<3> l = gather_loops(a);
  gather_part(a, l, l.all());
}

}  // namespace

bool gather_begin(const GatherArgs& a) {
  return a.out.numel() > 0 && good_indices(a.index, axis_size(a.in, a.axis), a.mailbox, a.op_id);
}
AxisLoops<3> gather_loops(const GatherArgs& a) {
  return axis_loops<3>(a.axis, {a.out, a.in, a.index});
}
void gather_part(const GatherArgs& a, const AxisLoops<3>& l, const AxisPart& p) {
  dispatch_size(a.out.dtype(), [&]<class U>() {
    over_runs<1>(l, p, IndexReader(a.index),
                 [&](i64 out, i64 in, i64 n, i64 out_step, i64 in_step) {
                   copy_run(a.out.as<U>() + out, a.in.as<const U>() + in, n, out_step, in_step);
                 });
  });
}

// --- scatter ---

namespace {

bool sums_in_workspace(const ScatterArgs& a) {
  return a.mode == ScatterMode::add && is_half(a.out.dtype());
}
// f32 sums of all of out, dense.
Geometry wide_geometry(const ScatterArgs& a) {
  Geometry wide = *a.out.geometry;
  wide.dtype = DType::f32;
  i64 stride = 1;
  for (int d = wide.ndim; d-- > 0;) wide.strides[d] = stride, stride *= wide.shape[d];
  finish_geometry(wide);
  return wide;
}
// f(sum, element) for each element of out and its f32 sum.
template <class F>
void for_each_sum(const ScatterArgs& a, float* sums, F&& f) {
  const Geometry wide = wide_geometry(a);
  const LoopNest<2> nest = loop_nest({View{sums, &wide}, a.out});
  const i64 n = nest.inner(), ws = nest.inner_stride(0), os = nest.inner_stride(1);
  for_each_row(nest, [&](const i64(&at)[2]) {
    for (i64 i = 0; i < n; ++i) f(sums[at[0] + i * ws], at[1] + i * os);
  });
}

// Sums of type A of sources of type T.
template <class A, class T>
void add_part(const ScatterArgs& a, A* sums, const AxisLoops<3>& l, const AxisPart& p) {
  over_runs<0>(l, p, IndexReader(a.index), [&](i64 out, i64 from, i64 n, i64 out_step, i64 step) {
    A* to = sums + out;
    const T* source = a.source.as<const T>() + from;
    for (i64 c = 0; c < n; ++c) to[c * out_step] = A(to[c * out_step] + A(source[c * step]));
  });
}

void scatter_reference(const ScatterArgs& a, const Launch& launch) {
  if (!scatter_begin(a, launch.workspace)) return;
  const AxisLoops<3> l = scatter_loops(a);
  scatter_part(a, launch.workspace, l, l.all());
  scatter_end(a, launch.workspace);
}

}  // namespace

i64 scatter_workspace(const ScatterArgs& a) {
  return sums_in_workspace(a) ? a.out.numel() * i64(sizeof(float)) : 0;
}
bool scatter_begin(const ScatterArgs& a, void* workspace) {
  if (a.index.numel() == 0 || !good_indices(a.index, axis_size(a.out, a.axis), a.mailbox, a.op_id))
    return false;
  if (sums_in_workspace(a))
    dispatch_floating(a.out.dtype(), [&]<class T>() {
      for_each_sum(a, static_cast<float*>(workspace),
                   [&](float& sum, i64 at) { sum = float(a.out.as<T>()[at]); });
    });
  return true;
}
void scatter_end(const ScatterArgs& a, void* workspace) {
  if (sums_in_workspace(a))
    dispatch_floating(a.out.dtype(), [&]<class T>() {
      for_each_sum(a, static_cast<float*>(workspace),
                   [&](float& sum, i64 at) { a.out.as<T>()[at] = T(sum); });
    });
}

// The walk has the shape of the index, in which `out` may be longer.
AxisLoops<3> scatter_loops(const ScatterArgs& a) {
  Geometry part = sums_in_workspace(a) ? wide_geometry(a) : *a.out.geometry;
  for (int d = 0; d < part.ndim; ++d) part.shape[d] = a.index.size(d);
  finish_geometry(part);
  return axis_loops<3>(a.axis, {View{a.out.data, &part}, a.source, a.index});
}
void scatter_part(const ScatterArgs& a, void* workspace, const AxisLoops<3>& l, const AxisPart& p) {
  if (a.mode == ScatterMode::set)
    return dispatch_size(a.out.dtype(), [&]<class U>() {
      over_runs<0>(
          l, p, IndexReader(a.index), [&](i64 out, i64 from, i64 n, i64 out_step, i64 step) {
            copy_run(a.out.as<U>() + out, a.source.as<const U>() + from, n, out_step, step);
          });
    });
  switch (a.out.dtype()) {
    case DType::f64:
      return add_part<double, double>(a, a.out.as<double>(), l, p);
    case DType::f32:
      return add_part<float, float>(a, a.out.as<float>(), l, p);
    case DType::f16:
      return add_part<float, Half>(a, static_cast<float*>(workspace), l, p);
    case DType::bf16:
      return add_part<float, BFloat16>(a, static_cast<float*>(workspace), l, p);
    case DType::i64:  // unsigned: sums wrap
      return add_part<u64, u64>(a, a.out.as<u64>(), l, p);
    case DType::i32:
      return add_part<u32, u32>(a, a.out.as<u32>(), l, p);
    default:
      return add_part<u8, u8>(a, a.out.as<u8>(), l, p);
  }
}

WT_VARIANTS(cpu, gather, GatherArgs, {.name = "threaded", .rank = 10, .launch = gather_threaded},
            {.name = "reference", .launch = gather_reference});
WT_VARIANTS(
    cpu, scatter, ScatterArgs,
    {.name = "threaded", .rank = 10, .workspace = scatter_workspace, .launch = scatter_threaded},
    {.name = "reference", .workspace = scatter_workspace, .launch = scatter_reference});

}  // namespace wt
