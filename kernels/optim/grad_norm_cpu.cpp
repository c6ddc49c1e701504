// The gradient norm, with vectors and threads.
#include "warptape/kernels/optim/grad_norm_cpu.h"

#include <algorithm>

#include "warptape/kernels/cpu/pieces.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
#if WT_X86
namespace {

// Eight sums hide the latency of the additions.
WT_TARGET_AVX2 double sum_of_squares_avx2(const float* g, i64 n) {
  __m256d sums[8];
  for (__m256d& s : sums) s = _mm256_setzero_pd();
  i64 i = 0;
  for (; i + 32 <= n; i += 32)
    for (int k = 0; k < 8; ++k) {
      const __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(g + i + 4 * k));
      sums[k] = _mm256_fmadd_pd(v, v, sums[k]);
    }
  for (int width = 4; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) sums[k] = _mm256_add_pd(sums[k], sums[k + width]);
  double lanes[4], rest = 0;
  _mm256_storeu_pd(lanes, sums[0]);
  for (; i < n; ++i) rest += double(g[i]) * double(g[i]);
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]) + rest;
}

}  // namespace

const char* grad_norm_why_not(const GradNormArgs& a) {
  if (a.dtype != DType::f32) return "gradients must be f32";
  return cpu_isa() < kAvx2 ? kNoAvx2 : nullptr;
}

void grad_norm_avx2(const GradNormArgs& a, const Launch&) {
  const float* g = static_cast<const float*>(a.grad);
  in_row_pieces(norm_chunks(a.n), kNormChunk, [&](i64 begin, i64 end) {
    for (i64 k = begin, i = begin * kNormChunk; k < end; ++k, i += kNormChunk)
      a.partials[k] = sum_of_squares_avx2(g + i, std::min(kNormChunk, a.n - i));
  });
}
#endif
}  // namespace wt
