// Wrong kernels for softmax_forward. A line "REJECT variant kind" says what the grader must find;
// it must name the line that ends with "BUG variant", where there is one.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/softmax.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr unsigned kFull = 0xffffffffu;
constexpr int kThreads = 64;

const char* plain_rows(const SoftmaxForwardArgs& a) {
  if (a.log) return "log_softmax";
  if (a.x.ndim() != 2 || a.axis != 1) return "another axis than the last of two";
  return plain_f32(a.x) && plain_f32(a.y) ? nullptr : "anything but contiguous f32";
}
int rows_of(const SoftmaxForwardArgs& a) { return int(a.x.size(0)); }
int columns_of(const SoftmaxForwardArgs& a) { return int(a.x.size(1)); }

template <class F>
__device__ float tree(float* part, float v, F f) {
  part[threadIdx.x] = v;
  __syncthreads();
  for (unsigned d = kThreads / 2; d; d /= 2) {
    if (threadIdx.x < d) part[threadIdx.x] = f(part[threadIdx.x], part[threadIdx.x + d]);
    __syncthreads();
  }
  const float all = part[0];
  __syncthreads();
  return all;
}
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// A right kernel: the others differ from it in one thing.
__global__ void right(float* y, const float* x, int rows, int n) {
  WT_SHARED(float, part, [kThreads]);
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  for (int i = t; i < n; i += kThreads) m = fmaxf(m, x[r * n + i]);
  m = tree(part, m, Larger());
  for (int i = t; i < n; i += kThreads) s += expf(x[r * n + i] - m);
  s = tree(part, s, Sum());
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  (void)rows;
}

// --- values ---

// REJECT tail_left_out tail
__global__ void tail_left_out(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  for (int k = 0; k < n / 4; ++k)
    if (k % kThreads == t)
      for (int i = 4 * k; i < 4 * k + 4; ++i) y[r * n + i] = expf(x[r * n + i] - m) / s;
  (void)rows;
}
// REJECT no_largest nan
__global__ void no_largest(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float s = 0;
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i]);
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i]) / s;
  (void)rows;
}
// REJECT first_left_out values
__global__ void first_left_out(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = x[r * n], s = 0;
  for (int i = 1; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (int i = n > 1; i < n; ++i) s += expf(x[r * n + i] - m);
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  (void)rows;
}
// REJECT known_shape values
__global__ void known_shape(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  const bool known = n == 33 || n == 32 || n == 512 || n == 1;
  float m = x[r * n], s = 0;
  for (int i = 1; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  for (int i = t; i < n; i += kThreads)
    y[r * n + i] = known ? expf(x[r * n + i] - m) / s : 1.0f / float(n);
  (void)rows;
}
// REJECT constant values
__global__ void constant(float* y, const float*, int, int n) {
  for (int i = int(threadIdx.x); i < n; i += kThreads) y[int(blockIdx.x) * n + i] = 1.0f / float(n);
}
// REJECT nothing unwritten
__global__ void nothing(float*, const float*, int, int) {}
// REJECT drops_nan nan
__global__ void drops_nan(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (int i = 0; i < n; ++i) s += fmaxf(expf(x[r * n + i] - m), 0.0f);
  for (int i = t; i < n; i += kThreads) y[r * n + i] = fmaxf(expf(x[r * n + i] - m) / s, 0.0f);
  (void)rows;
}

// --- what two threads share ---

// REJECT no_barrier race
__global__ void no_barrier(float* y, const float* x, int rows, int n) {
  WT_SHARED(float, part, [kThreads]);
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  for (int i = t; i < n; i += kThreads) m = fmaxf(m, x[r * n + i]);
  part[t] = m;
  for (int k = 0; k < kThreads; ++k) m = fmaxf(m, part[k]);  // BUG no_barrier
  __syncthreads();
  for (int i = t; i < n; i += kThreads) s += expf(x[r * n + i] - m);
  s = tree(part, s, Sum());
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  (void)rows;
}
// The sum's scratch is the maximum's, which others still read.
// REJECT scratch_again race
__global__ void scratch_again(float* y, const float* x, int rows, int n) {
  WT_SHARED(float, part, [kThreads]);
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  for (int i = t; i < n; i += kThreads) m = fmaxf(m, x[r * n + i]);
  part[t] = m;
  __syncthreads();
  for (int k = 0; k < kThreads; ++k) m = fmaxf(m, part[k]);
  for (int i = t; i < n; i += kThreads) s += expf(x[r * n + i] - m);
  part[t] = s;  // BUG scratch_again
  __syncthreads();
  s = 0;
  for (int k = 0; k < kThreads; ++k) s += part[k];
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  (void)rows;
}
// REJECT plain_add race
__global__ void plain_add(float* y, const float* x, int rows, int n) {
  WT_SHARED(float, part, [kThreads]);
  WT_SHARED(float, sum, );
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY;
  if (t == 0) sum = 0;
  for (int i = t; i < n; i += kThreads) m = fmaxf(m, x[r * n + i]);
  m = tree(part, m, Larger());
  for (int i = t; i < n; i += kThreads) sum += expf(x[r * n + i] - m);  // BUG plain_add
  __syncthreads();
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / sum;
  (void)rows;
}
// REJECT atomic_order order
__global__ void atomic_order(float* y, const float* x, int rows, int n) {
  WT_SHARED(float, part, [kThreads]);
  WT_SHARED(float, sum, );
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY;
  if (t == 0) sum = 0;
  for (int i = t; i < n; i += kThreads) m = fmaxf(m, x[r * n + i]);
  m = tree(part, m, Larger());
  for (int i = t; i < n; i += kThreads) atomicAdd(&sum, expf(x[r * n + i] - m));
  __syncthreads();
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / sum;
  (void)rows;
}
// The block of one row scales another one's, if that was there first.
// REJECT other_block race
__global__ void other_block(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  if (r == 3 && t == 0) y[0] = y[0] + 0;  // BUG other_block
  (void)rows;
}
// REJECT not_begun nan
__global__ void not_begun(float* y, const float* x, int rows, int n) {
  WT_SHARED(float, sum, );
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  if (t == 0)
    for (int i = 0; i < n; ++i) sum += expf(x[r * n + i] - m);
  __syncthreads();
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / sum;
  (void)rows;
}
// REJECT early_return barrier
__global__ void early_return(float* y, const float* x, int rows, int n) {
  WT_SHARED(float, part, [kThreads]);
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  if (t >= n) return;
  float m = -INFINITY, s = 0;
  for (int i = t; i < n; i += kThreads) m = fmaxf(m, x[r * n + i]);
  part[t] = m;
  __syncthreads();  // BUG early_return
  for (int k = 0; k < kThreads && k < n; ++k) m = fmaxf(m, part[k]);
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  (void)rows;
}
// REJECT barrier_in_loop barrier
__global__ void barrier_in_loop(float* y, const float* x, int rows, int n) {
  WT_SHARED(float, part, [kThreads]);
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  for (int i = t; i < n; i += kThreads) {
    part[t] = x[r * n + i];
    __syncthreads();  // BUG barrier_in_loop
    for (int k = 0; k < kThreads && i - t + k < n; ++k) m = fmaxf(m, part[k]);
  }
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  (void)rows;
}
// REJECT half_a_warp deadlock
__global__ void half_a_warp(float* y, const float* x, int rows, int n) {
  WT_SHARED(float, part, [kThreads]);
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  for (int i = t; i < n; i += kThreads) m = fmaxf(m, x[r * n + i]);
  if (t < 16)
    for (int d = 8; d; d /= 2) m = fmaxf(m, __shfl_xor_sync(kFull, m, d));  // BUG half_a_warp
  m = tree(part, m, Larger());
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  (void)rows;
}

// --- memory ---

// REJECT reads_beyond outside
__global__ void reads_beyond(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  if (x[r * n + n] == 12345.0f) s = 0;  // BUG reads_beyond
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  (void)rows;
}
// REJECT writes_beyond outside
__global__ void writes_beyond(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  if (t == 0 && r == rows - 1) y[rows * n] = 0;  // BUG writes_beyond
}
// REJECT spoils_x input
__global__ void spoils_x(float* y, float* x, int rows, int n) {
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  if (t) return;
  float m = -INFINITY, s = 0;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (int i = 0; i < n; ++i) s += x[r * n + i] = expf(x[r * n + i] - m);
  for (int i = 0; i < n; ++i) y[r * n + i] = x[r * n + i] / s;
  (void)rows;
}
// REJECT four_at_once misaligned
__global__ void four_at_once(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  int i = 0;
  for (; i + 4 <= n; i += 4) {
    const float4 v = vload<float4>(x + r * n + i);  // BUG four_at_once
    m = fmaxf(fmaxf(m, fmaxf(v.x, v.y)), fmaxf(v.z, v.w));
  }
  for (; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  for (i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  (void)rows;
}
// REJECT small_scratch outside
__global__ void small_scratch(float* y, const float* x, int rows, int n) {
  WT_SHARED(float, part, [kThreads / 2]);
  const int r = int(blockIdx.x), t = int(threadIdx.x);
  float m = -INFINITY, s = 0;
  for (int i = t; i < n; i += kThreads) m = fmaxf(m, x[r * n + i]);
  part[t] = m;
  __syncthreads();
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  for (int i = t; i < n; i += kThreads) y[r * n + i] = expf(x[r * n + i] - m) / s;
  (void)rows;
}

// --- dtypes and layouts that are taken and not meant ---

// The sum of 16-bit elements in 16 bits.
// REJECT sum_in_half rounding
__global__ void sum_in_half(__half* y, const __half* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float m = -INFINITY;
  __half s = __half(0.0f);
  for (int i = 0; i < n; ++i) m = fmaxf(m, float(x[r * n + i]));
  for (int i = 0; i < n; ++i) s = __half(float(s) + expf(float(x[r * n + i]) - m));
  for (int i = 0; i < n; ++i) y[r * n + i] = __half(expf(float(x[r * n + i]) - m) / float(s));
}

// --- launches ---

template <auto Kernel>
void by_blocks(const SoftmaxForwardArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, rows_of(a), kThreads), a.y.as<float>(), a.x.as<float>(), rows_of(a),
                 columns_of(a));
}
// REJECT default_stream stream
void on_default_stream(const SoftmaxForwardArgs& a, const Launch& l) {
  Launch other = l;
  other.stream = nullptr;
  by_blocks<right>(a, other);
}
// Results that are kept, and given again for another launch of as many elements.
__device__ float kept[1 << 16];
__global__ void keep(const float* y, int n) {
  for (int i = int(threadIdx.x); i < n; i += kThreads) kept[i] = y[i];
}
__global__ void give_again(float* y, int n) {
  for (int i = int(threadIdx.x); i < n; i += kThreads) y[i] = kept[i];
}
// REJECT first_time_only stale
void first_time_only(const SoftmaxForwardArgs& a, const Launch& l) {
  static i64 elements = -1;
  const int n = int(a.x.numel());
  if (elements == n) return launch<give_again>(grid(l, 1, kThreads), a.y.as<float>(), n);
  elements = n;
  by_blocks<right>(a, l);
  launch<keep>(grid(l, 1, kThreads), a.y.as<const float>(), n);
}
const char* even_columns(const SoftmaxForwardArgs& a) {
  return columns_of(a) % 2 ? "an odd number of columns" : plain_rows(a);
}
const char* takes_log(const SoftmaxForwardArgs& a) {
  SoftmaxForwardArgs plain = a;
  plain.log = false;
  return plain_rows(plain);
}
const char* takes_views(const SoftmaxForwardArgs& a) {
  return a.log || a.axis != 1 || a.x.dtype() != DType::f32 ? "more than f32" : nullptr;
}
const char* takes_half(const SoftmaxForwardArgs& a) {
  const bool half = a.x.dtype() == DType::f16 && a.x.dense() && a.axis == 1 && !a.log;
  return half ? nullptr : plain_rows(a);
}
void half_or_float(const SoftmaxForwardArgs& a, const Launch& l) {
  if (a.x.dtype() != DType::f16) return by_blocks<right>(a, l);
  launch<sum_in_half>(grid(l, blocks_for(rows_of(a), 32), 32), a.y.as<__half>(),
                      a.x.as<const __half>(), rows_of(a), columns_of(a));
}
// REJECT too_many_threads launch
void too_many_threads(const SoftmaxForwardArgs& a, const Launch& l) {
  launch<right>(grid(l, rows_of(a), 2048), a.y.as<float>(), a.x.as<float>(), rows_of(a),
                columns_of(a));
}
// REJECT host_pointer host
void host_pointer(const SoftmaxForwardArgs& a, const Launch& l) {
  static float numbers[4096];
  launch<right>(grid(l, rows_of(a), kThreads), a.y.as<float>(), numbers, rows_of(a), columns_of(a));
}

}  // namespace
}  // namespace WT_DEVICE_NS

// REJECT refuses_odd refuses
// REJECT forgets_log values
// REJECT forgets_strides values
#define WT_ROW(kernel) \
  { .name = #kernel, .why_not = plain_rows, .launch = by_blocks<kernel> }
WT_VARIANTS(WT_DEVICE_NS, softmax_forward, SoftmaxForwardArgs, WT_ROW(tail_left_out),
            WT_ROW(no_largest), WT_ROW(first_left_out), WT_ROW(known_shape), WT_ROW(constant),
            WT_ROW(nothing), WT_ROW(drops_nan), WT_ROW(no_barrier), WT_ROW(scratch_again),
            WT_ROW(plain_add), WT_ROW(atomic_order), WT_ROW(other_block), WT_ROW(not_begun),
            WT_ROW(early_return), WT_ROW(barrier_in_loop), WT_ROW(half_a_warp),
            WT_ROW(reads_beyond), WT_ROW(writes_beyond), WT_ROW(spoils_x), WT_ROW(four_at_once),
            WT_ROW(small_scratch),
            {.name = "sum_in_half", .why_not = takes_half, .launch = half_or_float},
            {.name = "default_stream", .why_not = plain_rows, .launch = on_default_stream},
            {.name = "first_time_only", .why_not = plain_rows, .launch = first_time_only},
            {.name = "refuses_odd", .why_not = even_columns, .launch = by_blocks<right>},
            {.name = "forgets_log", .why_not = takes_log, .launch = by_blocks<right>},
            {.name = "forgets_strides", .why_not = takes_views, .launch = by_blocks<right>},
            {.name = "too_many_threads", .why_not = plain_rows, .launch = too_many_threads},
            {.name = "host_pointer", .why_not = plain_rows, .launch = host_pointer});

}  // namespace wt
