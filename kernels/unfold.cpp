// The gradient of windows that overlap, on the cpu.
#include "warptape/kernels/unfold.h"

#include "warptape/kernels/common/axis_loops.h"
#include "warptape/kernels/common/dtypes.h"

namespace wt {
namespace {

// For each element the windows that show it, from the first to the last.
void backward_reference(const UnfoldBackwardArgs& a, const Launch&) {
  if (a.gx.numel() == 0) return;
  const int last = a.gout.ndim() - 1;
  Geometry without_place = *a.gout.geometry;
  without_place.ndim = u8(last);
  const auto l = axis_loops<2>(a.axis, {a.gx, {a.gout.data, &without_place}});
  const i64 size = a.gout.size(last), place_step = a.gout.stride(last);
  const i64 windows = a.gx.ndim() == 0 ? 1 : a.gout.size(a.axis);
  dispatch_floating(a.gx.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    share_axis_loops(l, a.gout.numel(), [&](i64 o0, i64 o1, i64 c0, i64 c1) {
      for (i64 o = o0; o < o1; ++o)
        for (i64 i = 0; i < l.rows.length; ++i) {
          const i64 first = i < size ? 0 : (i - size) / a.step + 1;
          const i64 end = std::min(i / a.step + 1, windows);
          T* gx = a.gx.as<T>() + l.start(0, o) + i * l.axis_step(0);
          const T* gout = a.gout.as<const T>() + l.start(1, o);
          for (i64 c = c0; c < c1; ++c) {
            A sum = 0;
            for (i64 w = first; w < end; ++w)
              sum +=
                  A(gout[w * l.axis_step(1) + (i - w * a.step) * place_step + c * l.inner_step[1]]);
            gx[c * l.inner_step[0]] = T(sum);
          }
        }
    });
  });
}

}  // namespace

WT_VARIANTS(cpu, unfold_backward, UnfoldBackwardArgs,
            {.name = "reference", .launch = backward_reference});

}  // namespace wt
