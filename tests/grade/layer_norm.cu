// Right and wrong kernels for layer_norm_forward. "REJECT variant kind" as in softmax_bad.cu; the
// others have to pass.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/layer_norm.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

const char* plain_rows(const LayerNormForwardArgs& a) {
  if (a.stats) return "statistics are not kept";
  if (!a.weight || !a.bias || a.x.ndim() != 2) return "rows without weight and bias";
  return plain_f32(a.x) && plain_f32(a.y) ? nullptr : "anything but contiguous f32";
}

struct Row {
  float mean, rstd;
};
__device__ Row two_passes(const float* x, int n, float eps) {
  float mean = 0, variance = 0;
  for (int i = 0; i < n; ++i) mean += x[i] - x[0];
  mean = x[0] + mean / float(n);
  for (int i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  return {mean, 1 / sqrtf(variance / float(n) + eps)};
}
__device__ void write(float* y, const float* x, const float* w, const float* b, int n, Row r) {
  for (int i = 0; i < n; ++i) y[i] = (x[i] - r.mean) * r.rstd * w[i] + b[i];
}

__global__ void thread_a_row(float* y, const float* x, const float* w, const float* b, int rows,
                             int n, float eps) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r < rows && n) write(y + r * n, x + r * n, w, b, n, two_passes(x + r * n, n, eps));
}
// Mean and squares in one pass (Welford), in doubles.
__global__ void one_pass_of_doubles(float* y, const float* x, const float* w, const float* b,
                                    int rows, int n, float eps) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  double mean = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double d = double(x[r * n + i]) - mean;
    mean += d / (i + 1);
    squares += d * (double(x[r * n + i]) - mean);
  }
  const double rstd = 1 / sqrt(squares / n + double(eps));
  for (int i = 0; i < n; ++i)
    y[r * n + i] = float((double(x[r * n + i]) - mean) * rstd * w[i] + b[i]);
}

// The mean of the squares less the square of the mean: near 1000 nothing is left of it.
// REJECT squares_cancel values
__global__ void squares_cancel(float* y, const float* x, const float* w, const float* b, int rows,
                               int n, float eps) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) sum += x[r * n + i], squares += x[r * n + i] * x[r * n + i];
  const float mean = sum / float(n), variance = squares / float(n) - mean * mean;
  write(y + r * n, x + r * n, w, b, n, {mean, 1 / sqrtf((variance < 0 ? 0 : variance) + eps)});
}
// REJECT no_eps nan
__global__ void no_eps(float* y, const float* x, const float* w, const float* b, int rows, int n,
                       float) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r < rows && n) write(y + r * n, x + r * n, w, b, n, two_passes(x + r * n, n, 0));
}
// REJECT one_less values
__global__ void one_less(float* y, const float* x, const float* w, const float* b, int rows, int n,
                         float eps) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows || n == 0) return;
  Row row = two_passes(x + r * n, n, eps);
  row.rstd *= sqrtf(float(n - 1) / float(n));
  write(y + r * n, x + r * n, w, b, n, row);
}
// REJECT forgets_bias values
__global__ void forgets_bias(float* y, const float* x, const float* w, const float* b, int rows,
                             int n, float eps) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows || n == 0) return;
  const Row row = two_passes(x + r * n, n, eps);
  for (int i = 0; i < n; ++i) y[r * n + i] = (x[r * n + i] - row.mean) * row.rstd * w[i];
  (void)b;
}
// REJECT one_for_all race
__global__ void one_for_all(float* y, const float* x, const float* w, const float* b, int rows,
                            int n, float eps) {
  WT_SHARED(float, mean, );
  WT_SHARED(float, rstd, );
  const int r = int(threadIdx.x);
  if (r >= rows || n == 0) return;
  const Row row = two_passes(x + r * n, n, eps);
  mean = row.mean, rstd = row.rstd;  // BUG one_for_all
  write(y + r * n, x + r * n, w, b, n, {mean, rstd});
}

// --- with what the backward takes ---

const char* with_stats(const LayerNormForwardArgs& a) {
  if (!a.weight || !a.bias || a.x.ndim() != 2) return "rows without weight and bias";
  return plain_f32(a.x) && plain_f32(a.y) ? nullptr : "anything but contiguous f32";
}
enum class Left { zero, unwritten, wrong };
template <Left What>
__global__ void keeps(float* y, float* stats, const float* x, const float* w, const float* b,
                      int rows, int n, float eps) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows || n == 0) return;
  const Row row = two_passes(x + r * n, n, eps);
  write(y + r * n, x + r * n, w, b, n, row);
  if (!stats) return;
  stats[r] = row.mean, stats[2 * rows + r] = row.rstd;
  if (What != Left::unwritten) stats[rows + r] = What == Left::zero ? 0 : 0.01f;
}
template <Left What>
void keep(const LayerNormForwardArgs& a, const Launch& l) {
  const int rows = int(a.x.size(0));
  launch<keeps<What>>(grid(l, blocks_for(rows, 32), 32), a.y.as<float>(), a.stats.as<float>(),
                      a.x.as<const float>(), a.weight.as<const float>(), a.bias.as<const float>(),
                      rows, int(a.x.size(1)), float(a.eps));
}
// What is left of the mean may be 0, but not anything.
// REJECT left_unwritten unwritten
// REJECT left_wrong values

template <auto Kernel, int Threads = 32>
void simply(const LayerNormForwardArgs& a, const Launch& l) {
  const int rows = int(a.x.size(0));
  launch<Kernel>(grid(l, blocks_for(rows, Threads), Threads), a.y.as<float>(),
                 a.x.as<const float>(), a.weight.as<const float>(), a.bias.as<const float>(), rows,
                 int(a.x.size(1)), float(a.eps));
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_ROW(kernel) \
  { .name = #kernel, .why_not = plain_rows, .launch = simply<kernel> }
WT_VARIANTS(WT_DEVICE_NS, layer_norm_forward, LayerNormForwardArgs, WT_ROW(thread_a_row),
            WT_ROW(one_pass_of_doubles), WT_ROW(squares_cancel), WT_ROW(no_eps), WT_ROW(one_less),
            WT_ROW(forgets_bias),
            {.name = "left_zero", .why_not = with_stats, .launch = keep<Left::zero>},
            {.name = "left_unwritten", .why_not = with_stats, .launch = keep<Left::unwritten>},
            {.name = "left_wrong", .why_not = with_stats, .launch = keep<Left::wrong>},
            {.name = "one_for_all", .why_not = plain_rows, .launch = simply<one_for_all, 128>});

}  // namespace wt
