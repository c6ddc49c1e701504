// Right kernels for `add`, in styles that differ as students' do.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/pointwise.h"

namespace wt {
using Args = PointwiseArgs<pw::Add>;
inline namespace WT_DEVICE_NS {
namespace {

const char* flat(const Args& a) {
  if (!a.in[0] || !a.in[1]) return "a number";
  return plain_f32(a.out) && plain_f32(a.in[0]) && plain_f32(a.in[1]) &&
                 same_shape(*a.in[0].geometry, *a.in[1].geometry)
             ? nullptr
             : "anything but contiguous f32 of one shape";
}
const char* flat_aligned(const Args& a) {
  if (const char* why = flat(a)) return why;
  return aligned16(a.out) && aligned16(a.in[0]) && aligned16(a.in[1]) ? nullptr
                                                                      : "memory off 16 bytes";
}

__global__ void thread_an_element(float* out, const float* a, const float* b, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = a[i] + b[i];
}
// A grid that is too small on purpose.
__global__ void grid_stride(float* out, const float* a, const float* b, int n) {
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += int(gridDim.x * blockDim.x))
    out[i] = a[i] + b[i];
}
// Each thread has neighbours of its own: slow, and right.
__global__ void runs_of_eight(float* out, const float* a, const float* b, int n) {
  const int first = int(blockIdx.x * blockDim.x + threadIdx.x) * 8;
  for (int i = first; i < first + 8 && i < n; ++i) out[i] = b[i] + a[i];
}
__global__ void from_the_end(float* out, const float* a, const float* b, int n) {
  const int i = n - 1 - int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= 0) out[i] = a[i] + b[i];
}
__global__ void four_at_once(float* out, const float* a, const float* b, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i + 4 <= n) {
    const float4 x = vload<float4>(a + i), y = vload<float4>(b + i);
    vstore(out + i, float4{x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w});
  } else {
    for (int k = i; k < n; ++k) out[k] = a[k] + b[k];
  }
}
// By way of shared memory, which it does not need.
__global__ void by_shared(float* out, const float* a, const float* b, int n) {
  WT_SHARED(float, tile, [2][64]);
  const int t = int(threadIdx.x), i = int(blockIdx.x) * 64 + t;
  tile[0][t] = i < n ? a[i] : 0;
  tile[1][63 - t] = i < n ? b[i] : 0;
  __syncthreads();
  if (i < n) out[i] = tile[0][t] + tile[1][63 - t];
}
// A lane reads for its neighbour.
__global__ void by_shuffle(float* out, const float* a, const float* b, int n) {
  const int lane = int(threadIdx.x) % 32, first = int(blockIdx.x * blockDim.x + threadIdx.x) - lane;
  const int other = first + (lane + 1) % 32, own = first + lane;
  const float x = other < n ? a[other] : 0;
  const float mine = __shfl_sync(0xffffffffu, x, (lane + 31) % 32);
  if (own < n) out[own] = mine + b[own];
}
__global__ void grid_of_two_axes(float* out, const float* a, const float* b, int n) {
  const int i = int((blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x);
  if (i < n) out[i] = a[i] + b[i];
}
// Every dtype that the contract has floats and i32 of, and any strides of two axes at most.
template <class T>
__global__ void any(T* out, const T* a, const T* b, i64 rows, i64 columns, const i64x6 s) {
  const i64 e = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= rows * columns) return;
  const i64 r = e / columns, c = e % columns;
  const T x = a[r * s.v[2] + c * s.v[3]], y = b[r * s.v[4] + c * s.v[5]];
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, int>)
    out[r * s.v[0] + c * s.v[1]] = x + y;
  else
    out[r * s.v[0] + c * s.v[1]] = T(float(x) + float(y));
}

template <auto Kernel, int PerThread = 1>
void simply(const Args& a, const Launch& l) {
  const i64 n = a.out.numel();
  launch<Kernel>(grid(l, blocks_for(n, 64 * PerThread), 64), a.out.as<float>(),
                 a.in[0].as<const float>(), a.in[1].as<const float>(), int(n));
}
void three_blocks(const Args& a, const Launch& l) {
  launch<grid_stride>(grid(l, a.out.numel() ? 3 : 0, 96), a.out.as<float>(),
                      a.in[0].as<const float>(), a.in[1].as<const float>(), int(a.out.numel()));
}
void two_axes(const Args& a, const Launch& l) {
  Config c = grid(l, 0, 32);
  const unsigned blocks = blocks_for(a.out.numel(), 32);
  c.grid = dim3(7, (blocks + 6) / 7);
  launch<grid_of_two_axes>(c, a.out.as<float>(), a.in[0].as<const float>(),
                           a.in[1].as<const float>(), int(a.out.numel()));
}
// One launch for each half.
void in_halves(const Args& a, const Launch& l) {
  const int n = int(a.out.numel()), half = n / 2;
  for (int part = 0; part < 2; ++part) {
    const int first = part * half, count = part ? n - half : half;
    launch<thread_an_element>(grid(l, blocks_for(count, 64), 64), a.out.as<float>() + first,
                              a.in[0].as<const float>() + first, a.in[1].as<const float>() + first,
                              count);
  }
}
const char* two_axes_at_most(const Args& a) {
  if (!a.in[0] || !a.in[1]) return "a number";
  const DType t = a.out.dtype();
  if (!is_floating(t) && t != DType::i32) return "other integers";
  return a.out.ndim() <= 2 ? nullptr : "more than two axes";
}
i64 step_of(const View& v, int axis, int ndim) {  // axis of the result; broadcast ones have step 0
  const int own = axis - (ndim - v.ndim());
  return own < 0 || v.size(own) == 1 ? 0 : v.stride(own);
}
template <class T>
void launch_any(const Args& a, const Launch& l) {
  const int n = a.out.ndim();
  const i64 rows = n == 2 ? a.out.size(0) : 1, columns = n ? a.out.size(n - 1) : 1;
  i64x6 s{};
  const View* const views[] = {&a.out, &a.in[0], &a.in[1]};
  for (int k = 0; k < 3; ++k) {
    if (n == 2) s.v[2 * k] = step_of(*views[k], 0, n);
    if (n) s.v[2 * k + 1] = step_of(*views[k], n - 1, n);
  }
  launch<any<T>>(grid(l, blocks_for(rows * columns, 64), 64), a.out.as<T>(), a.in[0].as<const T>(),
                 a.in[1].as<const T>(), rows, columns, s);
}
void of_any(const Args& a, const Launch& l) {
  switch (a.out.dtype()) {
    case DType::f64:
      return launch_any<double>(a, l);
    case DType::f16:
      return launch_any<__half>(a, l);
    case DType::bf16:
      return launch_any<__nv_bfloat16>(a, l);
    case DType::i32:
      return launch_any<int>(a, l);
    default:
      return launch_any<float>(a, l);
  }
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, add, Args,
            {.name = "thread_an_element", .why_not = flat, .launch = simply<thread_an_element>},
            {.name = "grid_stride", .why_not = flat, .launch = three_blocks},
            {.name = "runs_of_eight", .why_not = flat, .launch = simply<runs_of_eight, 8>},
            {.name = "from_the_end", .why_not = flat, .launch = simply<from_the_end>},
            {.name = "four_at_once", .why_not = flat_aligned, .launch = simply<four_at_once, 4>},
            {.name = "by_shared", .why_not = flat, .launch = simply<by_shared>},
            {.name = "by_shuffle", .why_not = flat, .launch = simply<by_shuffle>},
            {.name = "grid_of_two_axes", .why_not = flat, .launch = two_axes},
            {.name = "in_halves", .why_not = flat, .launch = in_halves},
            {.name = "any", .why_not = two_axes_at_most, .launch = of_any});

}  // namespace wt
