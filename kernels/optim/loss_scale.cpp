// Dynamic loss scaling on the cpu.
#include "warptape/kernels/loss_scale.h"

#include <algorithm>

#include "warptape/kernels/grad_norm.h"

namespace wt {
namespace {

void seed_reference(const LossSeedArgs& a, const Launch&) { detail::seed_loss(a); }
void update_reference(const LossScaleUpdateArgs& a, const Launch&) {
  detail::update_scale(*a.scaler);
}

const char* not_f32_or_f64(const GradUnscaleArgs& a) {
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "gradients must be f32 or f64";
}
template <class T>
void unscale(const GradUnscaleArgs& a) {
  T* x = static_cast<T*>(a.x);
  const T factor = T(a.scaler->inverse);
  for (i64 chunk = 0; chunk < norm_chunks(a.n); ++chunk) {
    const i64 end = std::min(a.n, (chunk + 1) * kNormChunk);
    double s = 0;
    for (i64 i = chunk * kNormChunk; i < end; ++i) {
      x[i] *= factor;
      s += double(x[i]) * double(x[i]);
    }
    a.partials[chunk] = s;
  }
}
void unscale_reference(const GradUnscaleArgs& a, const Launch&) {
  a.dtype == DType::f32 ? unscale<float>(a) : unscale<double>(a);
}

}  // namespace

WT_VARIANTS(cpu, loss_seed, LossSeedArgs, {.name = "reference", .launch = seed_reference});
WT_VARIANTS(cpu, loss_scale_update, LossScaleUpdateArgs,
            {.name = "reference", .launch = update_reference});
WT_VARIANTS(cpu, grad_unscale, GradUnscaleArgs,
            {.name = "reference", .why_not = not_f32_or_f64, .launch = unscale_reference});

}  // namespace wt
