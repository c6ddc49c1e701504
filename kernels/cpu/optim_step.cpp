// SGD and AdamW, eight parameters at a time, with threads.
#include "warptape/kernels/cpu/optim_step.h"

#include "warptape/kernels/cpu/optim_vector.h"
#include "warptape/kernels/cpu/pieces.h"

namespace wt {
#if WT_X86
namespace {

// Elements [i, i + 8), as far as they lie below n.
template <bool kMomentum>
WT_AVX2_HOT void sgd_eight(const SgdStepArgs& a, const detail::SgdScalars<float>& s, i64 i, i64 n) {
  float* p = static_cast<float*>(a.param);
  const f32x8 g = load_until(static_cast<const float*>(a.grad), i, n);
  f32x8 param = load_until(p, i, n);
  if constexpr (kMomentum) {
    float* buffer = static_cast<float*>(a.momentum);
    f32x8 m = load_until(buffer, i, n);
    detail::sgd_update(param, g, m, s);
    store_until(buffer, i, n, m);
  } else {
    detail::sgd_update(param, g, s);
  }
  store_until(p, i, n, param);
}
template <bool kMomentum>
WT_TARGET_AVX2 void sgd_piece(const SgdStepArgs& args, i64 begin, i64 end) {
  const SgdStepArgs a = args;  // copies: no store can change them
  const detail::SgdScalars<float> s(a);
  i64 i = begin;
  for (; i + 8 <= end; i += 8) sgd_eight<kMomentum>(a, s, i, i + 8);
  if (i < end) sgd_eight<kMomentum>(a, s, i, end);
}

WT_AVX2_HOT void adamw_eight(const AdamwStepArgs& a, const detail::AdamwScalars<float>& s, i64 i,
                             i64 n) {
  float *p = static_cast<float*>(a.param), *m = static_cast<float*>(a.m);
  float* v = static_cast<float*>(a.v);
  f32x8 param = load_until(p, i, n), first = load_until(m, i, n), second = load_until(v, i, n);
  const f32x8 g = load_until(static_cast<const float*>(a.grad), i, n);
  detail::adamw_update(param, g, first, second, s, SquareRoot8());
  store_until(p, i, n, param);
  store_until(m, i, n, first);
  store_until(v, i, n, second);
}
WT_TARGET_AVX2 void adamw_piece(const AdamwStepArgs& args, i64 begin, i64 end) {
  const AdamwStepArgs a = args;
  const detail::AdamwScalars<float> s(a);
  i64 i = begin;
  for (; i + 8 <= end; i += 8) adamw_eight(a, s, i, i + 8);
  if (i < end) adamw_eight(a, s, i, end);
}

}  // namespace

const char* sgd_step_why_not(const SgdStepArgs& a) { return optim_why_not(a); }
const char* adamw_step_why_not(const AdamwStepArgs& a) { return optim_why_not(a); }

void sgd_step_avx2(const SgdStepArgs& a, const Launch&) {
  if (a.flags.skip()) return;
  const auto piece = a.momentum ? sgd_piece<true> : sgd_piece<false>;
  in_pieces(a.n, [&](i64 begin, i64 end) { piece(a, begin, end); });
}
void adamw_step_avx2(const AdamwStepArgs& a, const Launch&) {
  if (a.flags.skip()) return;
  in_pieces(a.n, [&](i64 begin, i64 end) { adamw_piece(a, begin, end); });
}
#endif
}  // namespace wt
