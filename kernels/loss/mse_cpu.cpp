// Squared error, eight floats at a time.
#include "warptape/kernels/loss/mse_cpu.h"

#include "warptape/kernels/cpu/stream.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
#if WT_X86
namespace {

WT_TARGET_AVX2 void scaled_differences(float* g, const float* a, const float* b, i64 n,
                                       float scale) {
  i64 i = 0;
  for (; i + 8 <= n; i += 8) store8(g + i, (load8(a + i) - load8(b + i)) * scale);
  store_part8(g + i, (load_part8(a + i, n - i, 0) - load_part8(b + i, n - i, 0)) * scale, n - i);
}

}  // namespace

const char* mse_forward_why_not(const MseForwardArgs& args) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  if (args.a.dtype() != DType::f32) return "f32 only";
  return args.a.dense() && args.b.dense() ? nullptr : "both operands must be contiguous";
}

WT_TARGET_AVX2 void mse_forward_avx2(const MseForwardArgs& args, const Launch&) {
  const float *a = args.a.as<const float>(), *b = args.b.as<const float>();
  const i64 n = args.a.numel();
  double total = 0;
  for (i64 begin = 0; begin < n; begin += 4096) {  // each run in f32, the runs in double
    const i64 end = n - begin < 4096 ? n : begin + 4096;
    f32x8 sums[4] = {};
    i64 i = begin;
    for (; i + 32 <= end; i += 32)
      for (int k = 0; k < 4; ++k) {
        const f32x8 d = load8(a + i + 8 * k) - load8(b + i + 8 * k);
        sums[k] += d * d;
      }
    for (; i < end; i += 8) {
      const i64 left = end - i < 8 ? end - i : 8;
      const f32x8 d = load_part8(a + i, left, 0) - load_part8(b + i, left, 0);
      sums[0] += d * d;
    }
    total += double(sum_of8((sums[0] + sums[1]) + (sums[2] + sums[3])));
  }
  *args.loss_sum.as<float>() = float(total);
  *args.weight.as<float>() = float(n);
}

const char* mse_backward_why_not(const MseBackwardArgs& args) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  if (args.a.dtype() != DType::f32) return "f32 only";
  return args.ga.dense() && args.a.dense() && args.b.dense() ? nullptr
                                                             : "the operands must be contiguous";
}

void mse_backward_avx2(const MseBackwardArgs& args, const Launch&) {
  const float *a = args.a.as<const float>(), *b = args.b.as<const float>();
  const float scale = float(args.factor) * *args.grad.as<const float>();
  const bool stream = streams(args.ga, args.a) && streams(args.ga, args.b);
  in_pieces(args.ga.as<float>(), args.a.numel(), stream,
            [&](float* to, i64 i, i64 m) { scaled_differences(to, a + i, b + i, m, scale); });
  if (stream) end_stream();
}
#endif
}  // namespace wt
