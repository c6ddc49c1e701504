// Wrong kernels for max: the largest element of each row, NaN if there is one. "REJECT variant
// kind" as in softmax_bad.cu.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/reduce.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

const char* rows_alone(const MaxArgs& a) {
  if (a.in.ndim() != 2 || a.mask != 2) return "other axes than the last of two";
  if (a.f.least) return "the least element";
  return plain_f32(a.in) && plain_f32(a.out) ? nullptr : "anything but contiguous f32";
}

// REJECT number_beats_nan nan
__global__ void number_beats_nan(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float m = -INFINITY;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[r * n + i]);
  out[r] = m;
}
// What comes behind a NaN takes its place.
// REJECT nan_is_forgotten nan
__global__ void nan_is_forgotten(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float m = x[r * n];
  for (int i = 1; i < n; ++i) m = !(x[r * n + i] <= m) ? x[r * n + i] : m;
  out[r] = m;
}
// REJECT begins_with_zero values
__global__ void begins_with_zero(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float m = 0;
  for (int i = 0; i < n; ++i) m = x[r * n + i] > m || isnan(x[r * n + i]) ? x[r * n + i] : m;
  out[r] = m;
}
// REJECT last_row_left_out tail
__global__ void last_row_left_out(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows - 1) return;
  float m = -INFINITY;
  for (int i = 0; i < n; ++i) m = x[r * n + i] > m || isnan(x[r * n + i]) ? x[r * n + i] : m;
  out[r] = m;
}
// REJECT no_test_of_row outside
__global__ void no_test_of_row(float* out, const float* x, int, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  float m = -INFINITY;
  for (int i = 0; i < n; ++i) m = x[r * n + i] > m ? x[r * n + i] : m;  // BUG no_test_of_row
  out[r] = m;
}
// REJECT of_columns values
__global__ void of_columns(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float m = -INFINITY;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[(i * rows + r) % (rows * n)]);
  out[r] = m;
}

template <auto Kernel>
void by_rows(const MaxArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, blocks_for(a.in.size(0), 32), 32), a.out.as<float>(),
                 a.in.as<const float>(), int(a.in.size(0)), int(a.in.size(1)));
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_ROW(kernel) \
  { .name = #kernel, .why_not = rows_alone, .launch = by_rows<kernel> }
WT_VARIANTS(WT_DEVICE_NS, max, MaxArgs, WT_ROW(number_beats_nan), WT_ROW(nan_is_forgotten),
            WT_ROW(begins_with_zero), WT_ROW(last_row_left_out), WT_ROW(no_test_of_row),
            WT_ROW(of_columns));

}  // namespace wt
