// Right kernels for softmax_forward, in styles that differ as students' do.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/softmax.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr unsigned kFull = 0xffffffffu;

const char* plain_rows(const SoftmaxForwardArgs& a) {
  if (a.log) return "log_softmax";
  if (a.x.ndim() != 2 || a.axis != 1) return "another axis than the last of two";
  return plain_f32(a.x) && plain_f32(a.y) ? nullptr : "anything but contiguous f32";
}
int rows_of(const SoftmaxForwardArgs& a) { return int(a.x.size(0)); }
int columns_of(const SoftmaxForwardArgs& a) { return int(a.x.size(1)); }

// --- a thread a row ---

__global__ void thread_a_row(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float m = -INFINITY, s = 0;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  for (int i = 0; i < n; ++i) y[r * n + i] = expf(x[r * n + i] - m) / s;
}
// From the end, with pointers, and every exponential kept in y until the sum is known.
__global__ void backwards(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  const float *first = x + r * n, *p = first + n;
  float* q = y + (r + 1) * n;
  float m = -INFINITY, s = 0;
  while (p-- != first) m = *p > m ? *p : m;
  for (p = first + n; p-- != first;) s += * --q = expf(*p - m);
  for (int i = 0; i < n; ++i) y[r * n + i] /= s;
}
// One pass for maximum and sum.
__global__ void online(float* y, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  double m = -INFINITY, s = 0;
  for (int i = 0; i < n; ++i) {
    const double v = x[r * n + i];
    if (v > m) {
      s *= exp(m - v);
      m = v;
    }
    s += exp(v - m);
  }
  for (int i = 0; i < n; ++i) y[r * n + i] = float(exp(double(x[r * n + i]) - m) / s);
}

// --- a warp a row ---

__global__ void warp_a_row(float* y, const float* x, int rows, int n) {
  const int lane = int(threadIdx.x) % 32,
            r = int(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  if (r >= rows) return;
  float m = -INFINITY, s = 0;
  for (int i = lane; i < n; i += 32) m = fmaxf(m, x[r * n + i]);
  for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_xor_sync(kFull, m, d));
  for (int i = lane; i < n; i += 32) s += expf(x[r * n + i] - m);
  for (int d = 16; d; d /= 2) s += __shfl_xor_sync(kFull, s, d);
  for (int i = lane; i < n; i += 32) y[r * n + i] = expf(x[r * n + i] - m) / s;
}
// The first lane asks the others, and tells them.
__global__ void warp_by_lane_zero(float* y, const float* x, int rows, int n) {
  const int lane = int(threadIdx.x), r = int(blockIdx.x * blockDim.y + threadIdx.y);
  if (r >= rows) return;
  float m = -INFINITY, s = 0;
  for (int i = lane; i < n; i += 32) m = fmaxf(m, x[r * n + i]);
  for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_down_sync(kFull, m, unsigned(d)));
  m = __shfl_sync(kFull, m, 0);
  for (int i = lane; i < n; i += 32) s += expf(x[r * n + i] - m);
  for (int d = 16; d; d /= 2) s += __shfl_down_sync(kFull, s, unsigned(d));
  s = __shfl_sync(kFull, s, 0);
  for (int i = lane; i < n; i += 32) y[r * n + i] = expf(x[r * n + i] - m) / s;
}

// --- a block a row ---

template <class F>
__device__ float tree(float* part, float v, F f) {
  part[threadIdx.x] = v;
  __syncthreads();
  for (unsigned d = blockDim.x / 2; d; d /= 2) {
    if (threadIdx.x < d) part[threadIdx.x] = f(part[threadIdx.x], part[threadIdx.x + d]);
    __syncthreads();
  }
  const float all = part[0];
  __syncthreads();
  return all;
}
__global__ void block_a_row(float* y, const float* x, int n) {
  WT_SHARED(float, part, [128]);
  const float* row = x + blockIdx.x * n;
  float m = -INFINITY, s = 0;
  for (int i = int(threadIdx.x); i < n; i += 128) m = fmaxf(m, row[i]);
  m = tree(part, m, [](float a, float b) { return fmaxf(a, b); });
  for (int i = int(threadIdx.x); i < n; i += 128) s += expf(row[i] - m);
  s = tree(part, s, [](float a, float b) { return a + b; });
  for (int i = int(threadIdx.x); i < n; i += 128) y[blockIdx.x * n + i] = expf(row[i] - m) / s;
}
// The row lies in dynamic shared memory, the maximum is found by atomics.
__global__ void cached_row(float* y, const float* x, int n) {
  WT_DYN_SHARED(float, row);
  WT_SHARED(float, largest, );
  WT_SHARED(float, part, [64]);
  if (threadIdx.x == 0) largest = -INFINITY;
  for (int i = int(threadIdx.x); i < n; i += 64) row[i] = x[blockIdx.x * n + i];
  __syncthreads();
  for (int i = int(threadIdx.x); i < n; i += 64) atomic_max(&largest, row[i]);
  __syncthreads();
  float s = 0;
  for (int i = int(threadIdx.x); i < n; i += 64) s += row[i] = expf(row[i] - largest);
  s = tree(part, s, [](float a, float b) { return a + b; });
  for (int i = int(threadIdx.x); i < n; i += 64) y[blockIdx.x * n + i] = row[i] / s;
}
// One block does everything, row after row.
__global__ void one_block(float* y, const float* x, int rows, int n) {
  WT_SHARED(float, part, [256]);
  for (int r = 0; r < rows; ++r) {
    float m = -INFINITY, s = 0;
    for (int i = int(threadIdx.x); i < n; i += 256) m = fmaxf(m, x[r * n + i]);
    m = tree(part, m, [](float a, float b) { return fmaxf(a, b); });
    for (int i = int(threadIdx.x); i < n; i += 256) s += expf(x[r * n + i] - m);
    s = tree(part, s, [](float a, float b) { return a + b; });
    for (int i = int(threadIdx.x); i < n; i += 256) y[r * n + i] = expf(x[r * n + i] - m) / s;
  }
}

// --- two kernels, with a workspace of two numbers a row ---

__global__ void find_sums(float* sums, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float m = -INFINITY, s = 0;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  for (int i = 0; i < n; ++i) s += expf(x[r * n + i] - m);
  sums[2 * r] = m, sums[2 * r + 1] = s;
}
__global__ void apply_sums(float* y, const float* x, const float* sums, int rows, int n) {
  const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (e < rows * n) y[e] = expf(x[e] - sums[e / n * 2]) / sums[e / n * 2 + 1];
}

// --- everything that the contract allows ---

template <class T>
__global__ void any_strides(T* y, const T* x, i64 rows, i64 n, i64 row_y, i64 step_y, i64 row_x,
                            i64 step_x, bool log) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const i64 r = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  A m = -INFINITY, s = 0;
  for (i64 i = 0; i < n; ++i) m = max(m, A(x[r * row_x + i * step_x]));
  for (i64 i = 0; i < n; ++i) s += exp(A(x[r * row_x + i * step_x]) - m);
  for (i64 i = 0; i < n; ++i) {
    const A v = A(x[r * row_x + i * step_x]) - m;
    y[r * row_y + i * step_y] = T(log ? v - ::log(s) : exp(v) / s);
  }
}

// --- launches ---

template <auto Kernel>
void by_rows(const SoftmaxForwardArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, blocks_for(rows_of(a), 32), 32), a.y.as<float>(), a.x.as<const float>(),
                 rows_of(a), columns_of(a));
}
void by_warps(const SoftmaxForwardArgs& a, const Launch& l) {
  launch<warp_a_row>(grid(l, blocks_for(rows_of(a), 4), 128), a.y.as<float>(),
                     a.x.as<const float>(), rows_of(a), columns_of(a));
}
void by_flat_warps(const SoftmaxForwardArgs& a, const Launch& l) {
  Config c = grid(l, blocks_for(rows_of(a), 3), 32);
  c.block = dim3(32, 3);
  launch<warp_by_lane_zero>(c, a.y.as<float>(), a.x.as<const float>(), rows_of(a), columns_of(a));
}
template <auto Kernel, int Threads>
void by_blocks(const SoftmaxForwardArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, rows_of(a), Threads, size_t(columns_of(a)) * sizeof(float)),
                 a.y.as<float>(), a.x.as<const float>(), columns_of(a));
}
void by_one_block(const SoftmaxForwardArgs& a, const Launch& l) {
  launch<one_block>(grid(l, 1, 256), a.y.as<float>(), a.x.as<const float>(), rows_of(a),
                    columns_of(a));
}
i64 two_numbers_a_row(const SoftmaxForwardArgs& a) { return 8 * rows_of(a); }
void by_two_kernels(const SoftmaxForwardArgs& a, const Launch& l) {
  float* const sums = static_cast<float*>(l.workspace);
  launch<find_sums>(grid(l, blocks_for(rows_of(a), 32), 32), sums, a.x.as<const float>(),
                    rows_of(a), columns_of(a));
  launch<apply_sums>(grid(l, blocks_for(a.x.numel(), 128), 128), a.y.as<float>(),
                     a.x.as<const float>(), sums, rows_of(a), columns_of(a));
}
const char* two_axes(const SoftmaxForwardArgs& a) {
  return a.x.ndim() == 2 ? nullptr : "other than two axes";
}
template <class T>
void launch_any(const SoftmaxForwardArgs& a, const Launch& l) {
  const int other = 1 - a.axis;
  launch<any_strides<T>>(grid(l, blocks_for(a.x.size(other), 64), 64), a.y.as<T>(),
                         a.x.as<const T>(), a.x.size(other), a.x.size(a.axis), a.y.stride(other),
                         a.y.stride(a.axis), a.x.stride(other), a.x.stride(a.axis), a.log);
}
void by_any(const SoftmaxForwardArgs& a, const Launch& l) {
  switch (a.x.dtype()) {
    case DType::f64:
      return launch_any<double>(a, l);
    case DType::f16:
      return launch_any<__half>(a, l);
    case DType::bf16:
      return launch_any<__nv_bfloat16>(a, l);
    default:
      return launch_any<float>(a, l);
  }
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, softmax_forward, SoftmaxForwardArgs,
            {.name = "thread_a_row", .why_not = plain_rows, .launch = by_rows<thread_a_row>},
            {.name = "backwards", .why_not = plain_rows, .launch = by_rows<backwards>},
            {.name = "online", .why_not = plain_rows, .launch = by_rows<online>},
            {.name = "warp_a_row", .why_not = plain_rows, .launch = by_warps},
            {.name = "warp_by_lane_zero", .why_not = plain_rows, .launch = by_flat_warps},
            {.name = "block_a_row", .why_not = plain_rows, .launch = by_blocks<block_a_row, 128>},
            {.name = "cached_row", .why_not = plain_rows, .launch = by_blocks<cached_row, 64>},
            {.name = "one_block", .why_not = plain_rows, .launch = by_one_block},
            {.name = "two_kernels",
             .why_not = plain_rows,
             .workspace = two_numbers_a_row,
             .launch = by_two_kernels},
            {.name = "any_strides", .why_not = two_axes, .launch = by_any});

}  // namespace wt
