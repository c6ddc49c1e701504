// Resizing along one axis on the cpu.
#include "warptape/kernels/resize.h"

#include "warptape/kernels/common/axis_loops.h"
#include "warptape/kernels/common/dtypes.h"

namespace wt {
namespace {

using Tap = ResizeMap::Tap;

// The taps of all outputs, in the workspace: they are the same for every row.
i64 taps_bytes(const ResizeMap& map) { return map.out * i64(sizeof(Tap)); }
const Tap* fill_taps(const ResizeMap& map, void* workspace) {
  Tap* taps = static_cast<Tap*>(workspace);
  for (i64 i = 0; i < map.out; ++i) taps[i] = map(i);
  return taps;
}

i64 forward_workspace(const ResizeArgs& a) { return taps_bytes(a.map); }

void forward_reference(const ResizeArgs& a, const Launch& launch) {
  if (a.out.numel() == 0) return;
  const Tap* taps = fill_taps(a.map, launch.workspace);
  const auto l = axis_loops<2>(a.axis, {a.out, a.in});
  const i64 os = l.inner_step[0], is = l.inner_step[1], next = l.axis_step(1);
  dispatch_floating(a.out.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    share_axis_loops(l, a.out.numel(), [&](i64 o0, i64 o1, i64 c0, i64 c1) {
      for (i64 o = o0; o < o1; ++o)
        for (i64 i = 0; i < a.map.out; ++i) {
          const Tap t = taps[i];
          T* out = a.out.as<T>() + l.start(0, o) + i * l.axis_step(0);
          const T* in = a.in.as<const T>() + l.start(1, o) + t.low * next;
          const A w = A(t.weight), rest = A(1 - t.weight);
          if (t.weight == 0)
            for (i64 c = c0; c < c1; ++c) out[c * os] = in[c * is];
          else
            for (i64 c = c0; c < c1; ++c)
              out[c * os] = T(rest * A(in[c * is]) + w * A(in[c * is + next]));
        }
    });
  });
}

// After the taps, for each input element the first output whose `low` is not before it, and where
// those of the last one end: as low never falls, the outputs that read element j are those of
// first[j - 1] .. first[j + 1].
i64 backward_workspace(const ResizeBackwardArgs& a) {
  return taps_bytes(a.map) + (a.map.in + 2) * i64(sizeof(i64));
}
const i64* fill_first(const ResizeMap& map, const Tap* taps, void* workspace) {
  i64* first = reinterpret_cast<i64*>(static_cast<char*>(workspace) + taps_bytes(map));
  i64 i = 0;
  for (i64 j = 0; j <= map.in + 1; ++j) {
    while (i < map.out && taps[i].low < j) ++i;
    first[j] = i;
  }
  return first;
}

void backward_reference(const ResizeBackwardArgs& a, const Launch& launch) {
  if (a.gin.numel() == 0) return;
  const Tap* taps = fill_taps(a.map, launch.workspace);
  const i64* first = fill_first(a.map, taps, launch.workspace);
  const auto l = axis_loops<2>(a.axis, {a.gin, a.gout});
  const i64 step = l.axis_step(1);
  dispatch_floating(a.gin.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    share_axis_loops(l, a.gout.numel(), [&](i64 o0, i64 o1, i64 c0, i64 c1) {
      for (i64 o = o0; o < o1; ++o)
        for (i64 j = 0; j < a.map.in; ++j) {
          T* gin = a.gin.as<T>() + l.start(0, o) + j * l.axis_step(0);
          const i64 begin = j == 0 ? 0 : first[j - 1], own = first[j], end = first[j + 1];
          for (i64 c = c0; c < c1; ++c) {
            const T* gout = a.gout.as<const T>() + l.start(1, o) + c * l.inner_step[1];
            A sum = 0;
            for (i64 i = begin; i < own; ++i) sum += A(taps[i].weight) * A(gout[i * step]);
            for (i64 i = own; i < end; ++i) sum += A(1 - taps[i].weight) * A(gout[i * step]);
            gin[c * l.inner_step[0]] = T(sum);
          }
        }
    });
  });
}

}  // namespace

WT_VARIANTS(cpu, resize, ResizeArgs,
            {.name = "reference", .workspace = forward_workspace, .launch = forward_reference});
WT_VARIANTS(cpu, resize_backward, ResizeBackwardArgs,
            {.name = "reference", .workspace = backward_workspace, .launch = backward_reference});

}  // namespace wt
