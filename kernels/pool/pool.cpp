// Pooling on the cpu: the references and the lists of variants. pool/pool_vector_cpu.cpp has the
// fast ones, pool/pool_widened_cpu.cpp those of 16-bit floats, pool/pool_threaded_cpu.cpp deals the
// references' images out to threads.
#include "warptape/kernels/pool.h"

#include <cmath>
#include <limits>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/pool/pool_cpu.h"
#include "warptape/kernels/pool/pool_windows.h"

namespace wt {

namespace {

// f(n, c) for every plane.
template <class F>
void for_planes(const PoolShape& s, F&& f) {
  for (i64 n = 0; n < s.batch; ++n)
    for (i64 c = 0; c < s.channels; ++c) f(n, c);
}
template <class F>
void for_outputs(const PoolShape& s, F&& f) {
  i64 q[3];
  for (q[0] = 0; q[0] < s.out[0]; ++q[0])
    for (q[1] = 0; q[1] < s.out[1]; ++q[1])
      for (q[2] = 0; q[2] < s.out[2]; ++q[2]) f(q);
}

i64 offset(const ConvTensor& t, i64 n, i64 c, const i64* at) {
  return n * t.batch + c * t.channel + at[0] * t.at[0] + at[1] * t.at[1] + at[2] * t.at[2];
}
template <class T>
T& element(const ConvTensor& t, i64 n, i64 c, const i64* at) {
  return static_cast<T*>(t.data)[offset(t, n, c, at)];
}

// --- taps ---

void put_tap(const PoolShape& s, const ConvTensor& taps, i64 at, i64 tap) {
  if (s.taps() <= 256)
    static_cast<u8*>(taps.data)[at] = u8(tap);
  else
    static_cast<i32*>(taps.data)[at] = i32(tap);
}
i64 tap_at(const PoolShape& s, const ConvTensor& taps, i64 at) {
  return s.taps() <= 256 ? i64(static_cast<const u8*>(taps.data)[at])
                         : i64(static_cast<const i32*>(taps.data)[at]);
}
// --- inputs ---

// f(n, c, p, windows) for every input element; windows(g) calls g(q, tap) for those that reach it.
template <class F>
void for_inputs(const PoolShape& s, F&& f) {
  for_planes(s, [&](i64 n, i64 c) {
    i64 p[3];
    ReachedWindows<i64> r[3];
    const auto windows = [&](auto&& g) { for_windows(s, p, r, g); };
    for (p[0] = 0; p[0] < s.in[0]; ++p[0]) {
      r[0] = windows_of(s, 0, p[0]);
      for (p[1] = 0; p[1] < s.in[1]; ++p[1]) {
        r[1] = windows_of(s, 1, p[1]);
        for (p[2] = 0; p[2] < s.in[2]; ++p[2]) {
          r[2] = windows_of(s, 2, p[2]);
          f(n, c, p, windows);
        }
      }
    }
  });
}

// --- max ---

template <class T>
void max_forward(const MaxPoolForwardArgs& a) {
  using C = ComputeType<T>;
  const PoolShape& s = a.shape;
  for_planes(s, [&](i64 n, i64 c) {
    for_outputs(s, [&](const i64* q) {
      C best = -std::numeric_limits<C>::infinity();
      i64 tap = 0, index = -1;
      for_window(s, q, [&](const i64* p, i64 t) {
        const C v = C(element<T>(a.x, n, c, p));
        if (index >= 0 && !(v > best) && !std::isnan(v)) return;
        best = v;
        tap = t;
        index = (p[0] * s.in[1] + p[1]) * s.in[2] + p[2];
      });
      element<T>(a.y, n, c, q) = T(best);
      if (a.taps.data) put_tap(s, a.taps, offset(a.taps, n, c, q), tap);
      if (a.indices.data) element<i64>(a.indices, n, c, q) = index;
    });
  });
}

template <class T>
void max_backward(const MaxPoolBackwardArgs& a) {
  using C = ComputeType<T>;
  const PoolShape& s = a.shape;
  for_inputs(s, [&](i64 n, i64 c, const i64* p, auto& windows) {
    C sum = 0;
    windows([&](const i64* q, i64 tap) {
      if (tap_at(s, a.taps, offset(a.taps, n, c, q)) == tap) sum += C(element<T>(a.gy, n, c, q));
    });
    element<T>(a.gx, n, c, p) = T(sum);
  });
}

template <class T>
void max_gather(const MaxPoolGatherArgs& a) {
  const PoolShape& s = a.shape;
  for_planes(s, [&](i64 n, i64 c) {
    for_outputs(s, [&](const i64* q) {
      i64 p[3];
      const bool inside = tap_position(s, tap_at(s, a.taps, offset(a.taps, n, c, q)), q, p);
      element<T>(a.y, n, c, q) = inside ? element<T>(a.x, n, c, p) : T(ComputeType<T>(0));
    });
  });
}

// --- averages ---

template <class T>
void avg_forward(const AvgPoolForwardArgs& a) {
  using C = ComputeType<T>;
  const PoolShape& s = a.shape;
  for_planes(s, [&](i64 n, i64 c) {
    for_outputs(s, [&](const i64* q) {
      C sum = 0;
      for_window(s, q, [&](const i64* p, i64) { sum += C(element<T>(a.x, n, c, p)); });
      element<T>(a.y, n, c, q) = T(sum / C(pool_divisor(s, q)));
    });
  });
}

template <class T>
void avg_backward(const AvgPoolBackwardArgs& a) {
  using C = ComputeType<T>;
  const PoolShape& s = a.shape;
  for_inputs(s, [&](i64 n, i64 c, const i64* p, auto& windows) {
    C sum = 0;
    windows(
        [&](const i64* q, i64) { sum += C(element<T>(a.gy, n, c, q)) / C(pool_divisor(s, q)); });
    element<T>(a.gx, n, c, p) = T(sum);
  });
}

#define WT_POOL_REFERENCE(name, Args)                                 \
  void name##_reference(const Args& a, const Launch&) {               \
    dispatch_floating(a.shape.dtype, [&]<class T>() { name<T>(a); }); \
  }
WT_POOL_REFERENCE(max_forward, MaxPoolForwardArgs)
WT_POOL_REFERENCE(max_backward, MaxPoolBackwardArgs)
WT_POOL_REFERENCE(max_gather, MaxPoolGatherArgs)
WT_POOL_REFERENCE(avg_forward, AvgPoolForwardArgs)
WT_POOL_REFERENCE(avg_backward, AvgPoolBackwardArgs)
#undef WT_POOL_REFERENCE

}  // namespace

WT_VARIANTS(cpu, max_pool_forward, MaxPoolForwardArgs,
            {.name = "vector",
             .rank = 20,
             .why_not = max_pool_forward_why_not,
             .workspace = max_pool_forward_workspace,
             .launch = max_pool_forward_vector},
            {.name = "widened",
             .rank = 15,
             .why_not = pool_widened_why_not<MaxPoolForwardArgs>,
             .workspace = pool_widened_workspace<MaxPoolForwardArgs>,
             .launch = pool_widened<MaxPoolForwardArgs>},
            {.name = "threaded",
             .rank = 5,
             .why_not = pool_threaded_why_not<MaxPoolForwardArgs>,
             .launch = pool_threaded<MaxPoolForwardArgs>},
            {.name = "reference", .rank = 1, .launch = max_forward_reference});
WT_VARIANTS(cpu, max_pool_backward, MaxPoolBackwardArgs,
            {.name = "vector",
             .rank = 20,
             .why_not = max_pool_backward_why_not,
             .launch = max_pool_backward_vector},
            {.name = "widened",
             .rank = 15,
             .why_not = pool_widened_why_not<MaxPoolBackwardArgs>,
             .workspace = pool_widened_workspace<MaxPoolBackwardArgs>,
             .launch = pool_widened<MaxPoolBackwardArgs>},
            {.name = "threaded",
             .rank = 5,
             .why_not = pool_threaded_why_not<MaxPoolBackwardArgs>,
             .launch = pool_threaded<MaxPoolBackwardArgs>},
            {.name = "reference", .rank = 1, .launch = max_backward_reference});
WT_VARIANTS(cpu, max_pool_gather, MaxPoolGatherArgs,
            {.name = "threaded",
             .rank = 5,
             .why_not = pool_threaded_why_not<MaxPoolGatherArgs>,
             .launch = pool_threaded<MaxPoolGatherArgs>},
            {.name = "reference", .rank = 1, .launch = max_gather_reference});
WT_VARIANTS(cpu, avg_pool_forward, AvgPoolForwardArgs,
            {.name = "vector",
             .rank = 20,
             .why_not = avg_pool_forward_why_not,
             .workspace = avg_pool_forward_workspace,
             .launch = avg_pool_forward_vector},
            {.name = "widened",
             .rank = 15,
             .why_not = pool_widened_why_not<AvgPoolForwardArgs>,
             .workspace = pool_widened_workspace<AvgPoolForwardArgs>,
             .launch = pool_widened<AvgPoolForwardArgs>},
            {.name = "threaded",
             .rank = 5,
             .why_not = pool_threaded_why_not<AvgPoolForwardArgs>,
             .launch = pool_threaded<AvgPoolForwardArgs>},
            {.name = "reference", .rank = 1, .launch = avg_forward_reference});
WT_VARIANTS(cpu, avg_pool_backward, AvgPoolBackwardArgs,
            {.name = "vector",
             .rank = 20,
             .why_not = avg_pool_backward_why_not,
             .workspace = avg_pool_backward_workspace,
             .launch = avg_pool_backward_vector},
            {.name = "widened",
             .rank = 15,
             .why_not = pool_widened_why_not<AvgPoolBackwardArgs>,
             .workspace = pool_widened_workspace<AvgPoolBackwardArgs>,
             .launch = pool_widened<AvgPoolBackwardArgs>},
            {.name = "threaded",
             .rank = 5,
             .why_not = pool_threaded_why_not<AvgPoolBackwardArgs>,
             .launch = pool_threaded<AvgPoolBackwardArgs>},
            {.name = "reference", .rank = 1, .launch = avg_backward_reference});

}  // namespace wt
