// SGD and AdamW, eight parameters at a time, with threads.
#include "warptape/kernels/cpu/optim_step.h"

#include "warptape/kernels/cpu/optim_vector.h"
#include "warptape/kernels/cpu/pieces.h"

namespace wt {
#if WT_X86
namespace {

WT_TARGET_AVX2 void sgd_piece(const SgdStepArgs& a, i64 begin, i64 end) {
  const detail::SgdScalars<float> s(a);
  float* p = static_cast<float*>(a.param);
  const float* g = static_cast<const float*>(a.grad);
  float* buffer = static_cast<float*>(a.momentum);
  const i64 whole = begin + (end - begin) / 8 * 8;
  if (buffer) {
    for (i64 i = begin; i < whole; i += 8) {
      f32x8 param = load8(p + i), m = load8(buffer + i);
      detail::sgd_update(param, load8(g + i), m, s);
      store8(p + i, param);
      store8(buffer + i, m);
    }
    for (i64 i = whole; i < end; ++i) detail::sgd_update(p[i], g[i], buffer[i], s);
  } else {
    for (i64 i = begin; i < whole; i += 8) {
      f32x8 param = load8(p + i);
      detail::sgd_update(param, load8(g + i), s);
      store8(p + i, param);
    }
    for (i64 i = whole; i < end; ++i) detail::sgd_update(p[i], g[i], s);
  }
}

WT_TARGET_AVX2 void adamw_piece(const AdamwStepArgs& a, i64 begin, i64 end) {
  const detail::AdamwScalars<float> s(a);
  float* p = static_cast<float*>(a.param);
  const float* g = static_cast<const float*>(a.grad);
  float *m = static_cast<float*>(a.m), *v = static_cast<float*>(a.v);
  const i64 whole = begin + (end - begin) / 8 * 8;
  for (i64 i = begin; i < whole; i += 8) {
    f32x8 param = load8(p + i), first = load8(m + i), second = load8(v + i);
    detail::adamw_update(param, load8(g + i), first, second, s, SquareRoot());
    store8(p + i, param);
    store8(m + i, first);
    store8(v + i, second);
  }
  for (i64 i = whole; i < end; ++i) detail::adamw_update(p[i], g[i], m[i], v[i], s, SquareRoot());
}

}  // namespace

const char* sgd_step_why_not(const SgdStepArgs& a) { return optim_why_not(a); }
const char* adamw_step_why_not(const AdamwStepArgs& a) { return optim_why_not(a); }

void sgd_step_avx2(const SgdStepArgs& a, const Launch&) {
  if (a.flags.skip()) return;
  in_pieces(a.n, [&](i64 begin, i64 end) { sgd_piece(a, begin, end); });
}
void adamw_step_avx2(const AdamwStepArgs& a, const Launch&) {
  if (a.flags.skip()) return;
  in_pieces(a.n, [&](i64 begin, i64 end) { adamw_piece(a, begin, end); });
}
#endif
}  // namespace wt
