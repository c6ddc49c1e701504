// The gradient of windows that overlap, on the cpu.
#include "warptape/kernels/unfold.h"

#include <algorithm>

#include "warptape/kernels/common/axis_loops.h"
#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/conv/unfold_cpu.h"

namespace wt {
AxisLoops<2> unfold_loops(const UnfoldBackwardArgs& a) {
  Geometry without_place = *a.gout.geometry;
  without_place.ndim = u8(a.gout.ndim() - 1);
  return axis_loops<2>(a.axis, {a.gx, {a.gout.data, &without_place}});
}

// For each element the windows that show it, from the first to the last.
void unfold_backward_part(const UnfoldBackwardArgs& a, const AxisLoops<2>& l, const AxisPart& p) {
  enum { GX, GOut };
  const int last = a.gout.ndim() - 1;
  const i64 size = a.gout.size(last), place_step = a.gout.stride(last);
  const i64 windows = a.gx.ndim() == 0 ? 1 : a.gout.size(a.axis);
  dispatch_floating(a.gx.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    for (i64 o = p.outer_begin; o < p.outer_end; ++o)
      for (i64 i = 0; i < l.rows.length; ++i) {
        const i64 first = i < size ? 0 : (i - size) / a.step + 1;
        const i64 end = std::min(i / a.step + 1, windows);
        T* gx = a.gx.as<T>() + l.start(GX, o) + i * l.axis_step(GX);
        const T* gout = a.gout.as<const T>() + l.start(GOut, o);
        for (i64 c = p.inner_begin; c < p.inner_end; ++c) {
          A sum = 0;
          for (i64 w = first; w < end; ++w)
            sum += A(gout[w * l.axis_step(GOut) + (i - w * a.step) * place_step +
                          c * l.inner_step[GOut]]);
          gx[c * l.inner_step[GX]] = T(sum);
        }
      }
  });
}

static void unfold_backward_reference(const UnfoldBackwardArgs& a, const Launch&) {
  if (a.gx.numel() == 0) return;
  const AxisLoops<2> l = unfold_loops(a);
  unfold_backward_part(a, l, l.all());
}

WT_VARIANTS(cpu, unfold_backward, UnfoldBackwardArgs,
            {.name = "threaded", .rank = 10, .launch = unfold_backward_threaded},
            {.name = "reference", .launch = unfold_backward_reference});

}  // namespace wt
