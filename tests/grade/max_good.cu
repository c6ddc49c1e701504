// Right kernels for max, in styles that differ as students' do.
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

__device__ float larger(float a, float b) { return a > b || isnan(a) ? a : b; }

__global__ void by_loop(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float m = x[r * n];
  for (int i = 1; i < n; ++i) m = larger(m, x[r * n + i]);
  out[r] = m;
}
// NaN is looked for apart.
__global__ void nan_apart(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float m = -INFINITY;
  bool seen = false;
  for (int i = 0; i < n; ++i) {
    m = fmaxf(m, x[r * n + i]);
    seen |= isnan(x[r * n + i]);
  }
  out[r] = seen ? NAN : m;
}
// As integers, whose order is that of the floats once negative ones are turned round.
__global__ void as_integers(float* out, const float* x, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  unsigned m = 0;
  for (int i = 0; i < n; ++i) {
    const unsigned bits = __float_as_uint(x[r * n + i]);
    const unsigned key = isnan(x[r * n + i]) ? 0xffffffffu
                         : bits >> 31        ? ~bits
                                             : bits | 0x80000000u;
    m = key > m ? key : m;
  }
  out[r] = m == 0xffffffffu ? NAN : __uint_as_float(m >> 31 ? m & 0x7fffffffu : ~m);
}
__global__ void by_warp(float* out, const float* x, int rows, int n) {
  const int lane = int(threadIdx.x) % 32, r = int(blockIdx.x);
  float m = -INFINITY;
  for (int i = lane; i < n; i += 32) m = larger(m, x[r * n + i]);
  for (int d = 16; d; d /= 2) m = larger(m, __shfl_xor_sync(0xffffffffu, m, d));
  if (lane == 0) out[r] = m;
  (void)rows;
}
// Each lane asks whether any has a NaN.
__global__ void by_vote(float* out, const float* x, int rows, int n) {
  const int lane = int(threadIdx.x) % 32, r = int(blockIdx.x);
  float m = -INFINITY;
  bool seen = false;
  for (int i = lane; i < n; i += 32) {
    m = fmaxf(m, x[r * n + i]);
    seen = seen || isnan(x[r * n + i]);
  }
  const bool any = __any_sync(0xffffffffu, seen);
  for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_down_sync(0xffffffffu, m, unsigned(d)));
  if (lane == 0) out[r] = any ? NAN : m;
  (void)rows;
}

template <auto Kernel>
void by_rows(const MaxArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, blocks_for(a.in.size(0), 32), 32), a.out.as<float>(),
                 a.in.as<const float>(), int(a.in.size(0)), int(a.in.size(1)));
}
template <auto Kernel>
void by_warps(const MaxArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, a.in.size(0), 32), a.out.as<float>(), a.in.as<const float>(),
                 int(a.in.size(0)), int(a.in.size(1)));
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, max, MaxArgs,
            {.name = "by_loop", .why_not = rows_alone, .launch = by_rows<by_loop>},
            {.name = "nan_apart", .why_not = rows_alone, .launch = by_rows<nan_apart>},
            {.name = "as_integers", .why_not = rows_alone, .launch = by_rows<as_integers>},
            {.name = "by_warp", .why_not = rows_alone, .launch = by_warps<by_warp>},
            {.name = "by_vote", .why_not = rows_alone, .launch = by_warps<by_vote>});

}  // namespace wt
