// Resizing along one axis on the cpu.
#include "warptape/kernels/resize.h"

#include "warptape/kernels/common/axis_loops.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/pool/resize_cpu.h"

namespace wt {
namespace {

using Tap = ResizeMap::Tap;

i64 taps_bytes(const ResizeMap& map) { return map.out * i64(sizeof(Tap)); }
const i64* first_of(const ResizeMap& map, const void* workspace) {
  return reinterpret_cast<const i64*>(static_cast<const char*>(workspace) + taps_bytes(map));
}

}  // namespace

// The taps of all outputs: they are the same for every row.
i64 resize_workspace(const ResizeArgs& a) { return a.out.numel() == 0 ? 0 : taps_bytes(a.map); }
AxisLoops<2> resize_begin(const ResizeArgs& a, void* workspace) {
  Tap* taps = static_cast<Tap*>(workspace);
  for (i64 i = 0; i < a.map.out; ++i) taps[i] = a.map(i);
  return axis_loops<2>(a.axis, {a.out, a.in});
}

void resize_part(const ResizeArgs& a, const void* workspace, const AxisLoops<2>& l,
                 const AxisPart& p) {
  const Tap* taps = static_cast<const Tap*>(workspace);
  enum { Out, In };
  const i64 os = l.inner_step[Out], is = l.inner_step[In], next = l.axis_step(In);
  dispatch_floating(a.out.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    for (i64 o = p.outer_begin; o < p.outer_end; ++o)
      for (i64 i = 0; i < a.map.out; ++i) {
        const Tap t = taps[i];
        T* out = a.out.as<T>() + l.start(Out, o) + i * l.axis_step(Out);
        const T* in = a.in.as<const T>() + l.start(In, o) + t.low * next;
        const A w = A(t.weight), rest = A(1 - t.weight);
        if (t.weight == 0)
          for (i64 c = p.inner_begin; c < p.inner_end; ++c) out[c * os] = in[c * is];
        else
          for (i64 c = p.inner_begin; c < p.inner_end; ++c)
            out[c * os] = T(rest * A(in[c * is]) + w * A(in[c * is + next]));
      }
  });
}

// After the taps, for each input element the first output whose `low` is not before it, and where
// those of the last one end: as low never falls, the outputs that read element j are those of
// first[j - 1] .. first[j + 1].
i64 resize_backward_workspace(const ResizeBackwardArgs& a) {
  if (a.gin.numel() == 0) return 0;  // whose axis may have any size
  return taps_bytes(a.map) + (a.map.in + 2) * i64(sizeof(i64));
}
AxisLoops<2> resize_backward_begin(const ResizeBackwardArgs& a, void* workspace) {
  Tap* taps = static_cast<Tap*>(workspace);
  for (i64 i = 0; i < a.map.out; ++i) taps[i] = a.map(i);
  i64* first = const_cast<i64*>(first_of(a.map, workspace));
  i64 i = 0;
  for (i64 j = 0; j <= a.map.in + 1; ++j) {
    while (i < a.map.out && taps[i].low < j) ++i;
    first[j] = i;
  }
  return axis_loops<2>(a.axis, {a.gin, a.gout});
}

void resize_backward_part(const ResizeBackwardArgs& a, const void* workspace, const AxisLoops<2>& l,
                          const AxisPart& p) {
  const Tap* taps = static_cast<const Tap*>(workspace);
  enum { GIn, GOut };
  const i64 *first = first_of(a.map, workspace), step = l.axis_step(GOut);
  dispatch_floating(a.gin.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    for (i64 o = p.outer_begin; o < p.outer_end; ++o)
      for (i64 j = 0; j < a.map.in; ++j) {
        T* gin = a.gin.as<T>() + l.start(GIn, o) + j * l.axis_step(GIn);
        const i64 begin = j == 0 ? 0 : first[j - 1], own = first[j], end = first[j + 1];
        for (i64 c = p.inner_begin; c < p.inner_end; ++c) {
          const T* gout = a.gout.as<const T>() + l.start(GOut, o) + c * l.inner_step[GOut];
          A sum = 0;
          for (i64 i = begin; i < own; ++i) sum += A(taps[i].weight) * A(gout[i * step]);
          for (i64 i = own; i < end; ++i) sum += A(1 - taps[i].weight) * A(gout[i * step]);
          gin[c * l.inner_step[GIn]] = T(sum);
        }
      }
  });
}

static void forward_reference(const ResizeArgs& a, const Launch& launch) {
  if (a.out.numel() == 0) return;
  const AxisLoops<2> l = resize_begin(a, launch.workspace);
  resize_part(a, launch.workspace, l, l.all());
}
static void backward_reference(const ResizeBackwardArgs& a, const Launch& launch) {
  if (a.gin.numel() == 0) return;
  const AxisLoops<2> l = resize_backward_begin(a, launch.workspace);
  resize_backward_part(a, launch.workspace, l, l.all());
}

WT_VARIANTS(
    cpu, resize, ResizeArgs,
    {.name = "threaded", .rank = 10, .workspace = resize_workspace, .launch = resize_threaded},
    {.name = "reference", .workspace = resize_workspace, .launch = forward_reference});
WT_VARIANTS(cpu, resize_backward, ResizeBackwardArgs,
            {.name = "threaded",
             .rank = 10,
             .workspace = resize_backward_workspace,
             .launch = resize_backward_threaded},
            {.name = "reference",
             .workspace = resize_backward_workspace,
             .launch = backward_reference});

}  // namespace wt
