// Pooling on simt and cuda. One thread makes one element, of y going forward and of gx going back;
// the ladder is in how it finds out which one:
//   naive    64-bit arithmetic, elements in C order
//   compact  32-bit arithmetic, divisions by multiplication, elements in the order of memory
#include "warptape/kernels/pool.h"

#include "warptape/kernels/device/cudnn_functions.h"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/device/strided_index.cuh"
#include "warptape/kernels/pool/pool_windows.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 128;
// That a processor is to hold. nvcc on its own takes 40 registers a thread for some, and spills.
template <class I>
constexpr int kBlocks = sizeof(I) == 4 ? 8 : 4;

// --- shapes and places in integers I: i64 (naive) or i32 (compact) ---

template <class I>
struct Shape {
  I batch, channels;
  I in[3], out[3];
  I kernel[3], stride[3], padding[3], dilation[3];
  bool adaptive, count_padding;
  I divisor;

  explicit Shape(const PoolShape& s)
      : batch(I(s.batch)),
        channels(I(s.channels)),
        adaptive(s.adaptive),
        count_padding(s.count_padding),
        divisor(I(s.divisor)) {
    for (int d = 0; d < 3; ++d) {
      in[d] = I(s.in[d]), out[d] = I(s.out[d]), kernel[d] = I(s.kernel[d]);
      stride[d] = I(s.stride[d]), padding[d] = I(s.padding[d]), dilation[d] = I(s.dilation[d]);
    }
  }
};

template <class T, class I>
struct Planes {
  T* data;
  I batch, channel, at[3];

  explicit Planes(const ConvTensor& t)
      : data(static_cast<T*>(t.data)),
        batch(I(t.batch)),
        channel(I(t.channel)),
        at{I(t.at[0]), I(t.at[1]), I(t.at[2])} {}
  __device__ __forceinline__ I offset(I n, I c, const I* p) const {
    return n * batch + c * channel + p[0] * at[0] + p[1] * at[1] + p[2] * at[2];
  }
  __device__ __forceinline__ T& operator()(I n, I c, const I* p) const {
    return data[offset(n, c, p)];
  }
};

template <class I>
struct Taps {
  Planes<u8, I> places;  // of i32 where `bytes` is false; strides are in elements
  bool bytes;
  __device__ __forceinline__ I get(I n, I c, const I* q) const {
    const I at = places.offset(n, c, q);
    return bytes ? I(places.data[at]) : I(reinterpret_cast<const i32*>(places.data)[at]);
  }
  __device__ __forceinline__ void put(I n, I c, const I* q, I tap) const {
    const I at = places.offset(n, c, q);
    if (bytes)
      places.data[at] = u8(tap);
    else
      reinterpret_cast<i32*>(places.data)[at] = i32(tap);
  }
};

// The divisions that take an element's number apart.
struct Division64 {
  i64 by;
  explicit Division64(i64 d) : by(d) {}
  __device__ __forceinline__ i64 operator()(i64 n) const { return n / by; }
};
struct Division32 {
  FastDivisor by;
  explicit Division32(i64 d) : by(fast_divisor(u32(d))) {}
  __device__ __forceinline__ i32 operator()(i32 n) const { return i32(divide(u32(n), by)); }
};
template <class I>
using Division = std::conditional_t<std::is_same_v<I, i64>, Division64, Division32>;

// Which element a thread makes. `channels_last`: the channel varies fastest, so that neighbouring
// threads have neighbouring elements of NHWC; else the last axis does.
template <class I>
struct Elements {
  I numel, channels, size[3];
  Division<I> by_channels, by[3];
  bool channels_last;

  Elements(const PoolShape& s, const i64 (&sizes)[3], bool last)
      : numel(I(s.batch * s.channels * sizes[0] * sizes[1] * sizes[2])),
        channels(I(s.channels)),
        size{I(sizes[0]), I(sizes[1]), I(sizes[2])},
        by_channels(s.channels),
        by{Division<I>(sizes[0]), Division<I>(sizes[1]), Division<I>(sizes[2])},
        channels_last(last) {}

  __device__ __forceinline__ void place(I i, I& n, I& c, I (&p)[3]) const {
    const auto take = [&](I count, const Division<I>& divide_by) WT_INLINE_LAMBDA {
      const I rest = divide_by(i), own = i - rest * count;
      i = rest;
      return own;
    };
    if (channels_last) c = take(channels, by_channels);
    p[2] = take(size[2], by[2]);
    p[1] = take(size[1], by[1]);
    p[0] = take(size[0], by[0]);
    if (!channels_last) c = take(channels, by_channels);
    n = i;
  }
};

// Calls f(n, c, p) for the elements of this thread: one, unless the grid is cut.
template <class I, class F>
__device__ __forceinline__ void for_own_elements(const Elements<I>& e, F&& f) {
  const I stride = I(gridDim.x) * I(blockDim.x);
  for (I i = I(blockIdx.x) * I(blockDim.x) + I(threadIdx.x); i < e.numel;) {
    I n, c, p[3];
    e.place(i, n, c, p);
    f(n, c, p);
    if (e.numel - i <= stride) return;  // i + stride may be beyond 32 bits
    i += stride;
  }
}

// --- kernels ---

template <class T, class I>
struct MaxForward {
  Shape<I> shape;
  Elements<I> outputs;
  Planes<T, I> y;
  Taps<I> taps;
  Planes<i64, I> indices;
  Planes<const T, I> x;
  template <class F>
  void visit_pointers(F&& f) const {
    f(y.data), f(taps.places.data), f(indices.data), f(x.data);
  }
};

template <class T, class I>
__global__ void __launch_bounds__(kThreads, kBlocks<I>) max_pool(MaxForward<T, I> a) {
  using C = ComputeType<T>;
  for_own_elements(a.outputs, [&](I n, I c, const I* q) WT_INLINE_LAMBDA {
    C best = C(-INFINITY);
    I tap = 0;
    i64 index = -1;
    // Windows of neighbouring outputs overlap, or lie side by side: what one thread has asked for
    // is in L1 when the next asks for it.
    for_window(a.shape, q, [&](const I* p, I t) WT_INLINE_LAMBDA {
      const C v = C(a.x(n, c, p));
      // The first of equal ones stays, a NaN replaces everything.
      if (index >= 0 && !(v > best) && v == v) return;
      best = v;
      tap = t;
      index = (i64(p[0]) * a.shape.in[1] + p[1]) * a.shape.in[2] + p[2];
    });
    a.y(n, c, q) = T(best);
    if (a.taps.places.data) a.taps.put(n, c, q, tap);
    if (a.indices.data) a.indices(n, c, q) = index;
  });
}

template <class T, class I>
struct MaxBackward {
  Shape<I> shape;
  Elements<I> inputs;
  Planes<T, I> gx;
  Planes<const T, I> gy;
  Taps<I> taps;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx.data), f(gy.data), f(taps.places.data);
  }
};

template <class T, class I>
__global__ void __launch_bounds__(kThreads, kBlocks<I>) max_pool_backward(MaxBackward<T, I> a) {
  using C = ComputeType<T>;
  // An input element looks at the windows that could have chosen it, up to 4 of 3x3 with stride 2.
  // The other way round, a window adding to the element that its tap names, needs atomics where
  // windows overlap, and gx set to zero before: it is one more pass, and no order of the sums.
  for_own_elements(a.inputs, [&](I n, I c, const I* p) WT_INLINE_LAMBDA {
    const ReachedWindows<I> r[3] = {windows_of(a.shape, 0, p[0]), windows_of(a.shape, 1, p[1]),
                                    windows_of(a.shape, 2, p[2])};
    C sum = 0;
    for_windows(a.shape, p, r, [&](const I* q, I tap) WT_INLINE_LAMBDA {
      if (a.taps.get(n, c, q) == tap) sum += C(a.gy(n, c, q));
    });
    a.gx(n, c, p) = T(sum);
  });
}

template <class T, class I>
struct MaxGather {
  Shape<I> shape;
  Elements<I> outputs;
  Planes<T, I> y;
  Planes<const T, I> x;
  Taps<I> taps;
  template <class F>
  void visit_pointers(F&& f) const {
    f(y.data), f(x.data), f(taps.places.data);
  }
};

template <class T, class I>
__global__ void __launch_bounds__(kThreads, kBlocks<I>) max_pool_gather(MaxGather<T, I> a) {
  for_own_elements(a.outputs, [&](I n, I c, const I* q) WT_INLINE_LAMBDA {
    I p[3];
    const bool inside = tap_position(a.shape, a.taps.get(n, c, q), q, p);
    a.y(n, c, q) = inside ? a.x(n, c, p) : T(ComputeType<T>(0));
  });
}

template <class T, class I>
struct AvgForward {
  Shape<I> shape;
  Elements<I> outputs;
  Planes<T, I> y;
  Planes<const T, I> x;
  template <class F>
  void visit_pointers(F&& f) const {
    f(y.data), f(x.data);
  }
};

template <class T, class I>
__global__ void __launch_bounds__(kThreads, kBlocks<I>) avg_pool(AvgForward<T, I> a) {
  using C = ComputeType<T>;
  for_own_elements(a.outputs, [&](I n, I c, const I* q) WT_INLINE_LAMBDA {
    C sum = 0;
    for_window(a.shape, q, [&](const I* p, I) WT_INLINE_LAMBDA { sum += C(a.x(n, c, p)); });
    a.y(n, c, q) = T(sum / pool_divisor<C>(a.shape, q));
  });
}

template <class T, class I>
struct AvgBackward {
  Shape<I> shape;
  Elements<I> inputs;
  Planes<T, I> gx;
  Planes<const T, I> gy;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx.data), f(gy.data);
  }
};

template <class T, class I>
__global__ void __launch_bounds__(kThreads, kBlocks<I>) avg_pool_backward(AvgBackward<T, I> a) {
  using C = ComputeType<T>;
  for_own_elements(a.inputs, [&](I n, I c, const I* p) WT_INLINE_LAMBDA {
    const ReachedWindows<I> r[3] = {windows_of(a.shape, 0, p[0]), windows_of(a.shape, 1, p[1]),
                                    windows_of(a.shape, 2, p[2])};
    C sum = 0;
    for_windows(a.shape, p, r, [&](const I* q, I) WT_INLINE_LAMBDA {
      sum += C(a.gy(n, c, q)) / pool_divisor<C>(a.shape, q);
    });
    a.gx(n, c, p) = T(sum);
  });
}

// --- launch ---

bool channels_last(const ConvTensor& t, const PoolShape& s) {
  return s.channels > 1 && t.channel == 1 && t.at[2] != 1;
}
template <class I>
Elements<I> outputs_of(const PoolShape& s, const ConvTensor& y) {
  return {s, s.out, sizeof(I) == 4 && channels_last(y, s)};
}
template <class I>
Elements<I> inputs_of(const PoolShape& s, const ConvTensor& x) {
  return {s, s.in, sizeof(I) == 4 && channels_last(x, s)};
}
template <class I>
Taps<I> taps_of(const PoolShape& s, const ConvTensor& t) {
  return {Planes<u8, I>(t), s.taps() <= 256};
}

template <class T, class I>
void launch_with(const MaxPoolForwardArgs& a, const Launch& l) {
  const MaxForward<T, I> k{Shape<I>(a.shape),         outputs_of<I>(a.shape, a.y),
                           Planes<T, I>(a.y),         taps_of<I>(a.shape, a.taps),
                           Planes<i64, I>(a.indices), Planes<const T, I>(a.x)};
  launch<max_pool<T, I>>(grid_of(l, ceil_div(a.shape.y_numel(), kThreads), kThreads), k);
}
template <class T, class I>
void launch_with(const MaxPoolBackwardArgs& a, const Launch& l) {
  const MaxBackward<T, I> k{Shape<I>(a.shape), inputs_of<I>(a.shape, a.gx), Planes<T, I>(a.gx),
                            Planes<const T, I>(a.gy), taps_of<I>(a.shape, a.taps)};
  launch<max_pool_backward<T, I>>(grid_of(l, ceil_div(a.shape.x_numel(), kThreads), kThreads), k);
}
template <class T, class I>
void launch_with(const MaxPoolGatherArgs& a, const Launch& l) {
  const MaxGather<T, I> k{Shape<I>(a.shape), outputs_of<I>(a.shape, a.y), Planes<T, I>(a.y),
                          Planes<const T, I>(a.x), taps_of<I>(a.shape, a.taps)};
  launch<max_pool_gather<T, I>>(grid_of(l, ceil_div(a.shape.y_numel(), kThreads), kThreads), k);
}
template <class T, class I>
void launch_with(const AvgPoolForwardArgs& a, const Launch& l) {
  const AvgForward<T, I> k{Shape<I>(a.shape), outputs_of<I>(a.shape, a.y), Planes<T, I>(a.y),
                           Planes<const T, I>(a.x)};
  launch<avg_pool<T, I>>(grid_of(l, ceil_div(a.shape.y_numel(), kThreads), kThreads), k);
}
template <class T, class I>
void launch_with(const AvgPoolBackwardArgs& a, const Launch& l) {
  const AvgBackward<T, I> k{Shape<I>(a.shape), inputs_of<I>(a.shape, a.gx), Planes<T, I>(a.gx),
                            Planes<const T, I>(a.gy)};
  launch<avg_pool_backward<T, I>>(grid_of(l, ceil_div(a.shape.x_numel(), kThreads), kThreads), k);
}

template <class Args>
void launch_naive(const Args& a, const Launch& l) {
  with_float_or_double(a.shape.dtype,
                       [&](auto tag) { launch_with<typename decltype(tag)::type, i64>(a, l); });
}
template <class Args>
void launch_compact(const Args& a, const Launch& l) {
  with_float(a.shape.dtype,
             [&](auto tag) { launch_with<typename decltype(tag)::type, i32>(a, l); });
}

bool fits_32_bits(const PoolShape& s, const ConvTensor& t, const i64 (&sizes)[3]) {
  constexpr i64 kLimit = i64(1) << 31;
  const auto reach = [](i64 size, i64 stride) {
    return (size - 1) * (stride < 0 ? -stride : stride);
  };
  i64 sum = reach(s.batch, t.batch) + reach(s.channels, t.channel);
  for (int d = 0; d < 3; ++d) {
    // Positions behind the padding are numbers too, up to a window beyond the last element.
    if (s.in[d] + 2 * s.padding[d] + s.kernel[d] * s.dilation[d] >= kLimit / 2 ||
        s.stride[d] >= kLimit / 2)
      return false;
    sum += reach(sizes[d], t.at[d]);
  }
  return sum < kLimit;
}
const char* why_not(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
                    const ConvTensor& taps, const ConvTensor& indices) {
  constexpr i64 kLimit = i64(1) << 31;
  if (s.dtype == DType::f64) return "f64 has the naive rung only";
  if (s.x_numel() >= kLimit || s.y_numel() >= kLimit || s.divisor >= kLimit || -s.divisor >= kLimit)
    return "tensors of 2^31 elements have the naive rung only";
  // Of an adaptive window a product of two sizes is taken.
  for (int d = 0; d < 3; ++d)
    if (s.adaptive && (s.in[d] >= 32768 || s.out[d] >= 32768))
      return "axes of 32768 elements have the naive rung only";
  const bool fits = fits_32_bits(s, x, s.in) && fits_32_bits(s, y, s.out) &&
                    (!taps.data || fits_32_bits(s, taps, s.out)) &&
                    (!indices.data || fits_32_bits(s, indices, s.out));
  return fits ? nullptr : "strides beyond 2^31 elements have the naive rung only";
}
const char* why_not(const MaxPoolForwardArgs& a) {
  return why_not(a.shape, a.x, a.y, a.taps, a.indices);
}
const char* why_not(const MaxPoolBackwardArgs& a) {
  return why_not(a.shape, a.gx, a.gy, a.taps, {});
}
const char* why_not(const MaxPoolGatherArgs& a) { return why_not(a.shape, a.x, a.y, a.taps, {}); }
const char* why_not(const AvgPoolForwardArgs& a) { return why_not(a.shape, a.x, a.y, {}, {}); }
const char* why_not(const AvgPoolBackwardArgs& a) { return why_not(a.shape, a.gx, a.gy, {}, {}); }

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_POOL_LADDER(contract, Args, ...)                                                        \
  WT_VARIANTS(WT_DEVICE_NS, contract, Args,                                                        \
              {.name = "compact", .rank = 20, .why_not = why_not, .launch = launch_compact<Args>}, \
              {.name = "naive", .rank = 10, .launch = launch_naive<Args>} __VA_ARGS__)
#if defined(__CUDACC__)  // last: see conv.cu
#define WT_POOL_CUDNN(contract, Args)                  \
  WT_POOL_LADDER(contract, Args, ,                     \
                 {.name = "cudnn",                     \
                  .rank = 5,                           \
                  .why_not = contract##_cudnn_why_not, \
                  .launch = contract##_cudnn})
#else
#define WT_POOL_CUDNN(contract, Args) WT_POOL_LADDER(contract, Args, )
#endif
WT_POOL_CUDNN(max_pool_forward, MaxPoolForwardArgs);
WT_POOL_LADDER(max_pool_backward, MaxPoolBackwardArgs, );
WT_POOL_LADDER(max_pool_gather, MaxPoolGatherArgs, );
WT_POOL_CUDNN(avg_pool_forward, AvgPoolForwardArgs);
WT_POOL_CUDNN(avg_pool_backward, AvgPoolBackwardArgs);
#undef WT_POOL_CUDNN
#undef WT_POOL_LADDER

}  // namespace wt
