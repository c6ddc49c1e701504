// Mixup and cutmix on the cpu: the reference, by samples.
#include "warptape/kernels/image_mix.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/labels.h"
#include "warptape/kernels/image/image_mix_cpu.h"

namespace wt {
namespace {

Mixture mixture_of(const ImageMixArgs& a, i64 sample) {
  return draw_mixture(a.rule, a.seed, a.cursor ? a.cursor[0] : a.epoch,
                      a.cursor ? a.cursor[1] : a.batch, sample, a.count(), i32(a.out.size(2)),
                      i32(a.out.size(3)));
}

template <class T>
void mix_sample(const ImageMixArgs& a, const Mixture& m, i64 sample) {
  const i64 h = a.out.size(2), w = a.out.size(3), each = a.out.size(1) * h * w;
  const bool last = image_layout(a.out) == ImageLayout::channels_last;
  T* const out = a.out.as<T>() + sample * each;
  const T *const own = a.images.as<const T>() + sample * each, *const other =
                                                                   a.images.as<const T>() +
                                                                   m.partner * each;
  for (i64 k = 0; k < each; ++k) {
    const i64 pixel = last ? k / a.out.size(1) : k % (h * w), y = pixel / w, x = pixel % w;
    if (m.cut)
      out[k] = y >= m.top && y < m.bottom && x >= m.left && x < m.right ? other[k] : own[k];
    else
      out[k] = T(std::fmaf(m.share, float(own[k]), (1 - m.share) * float(other[k])));
  }
}

void soft_target(const ImageMixArgs& a, const Mixture& m, i64 sample) {
  const i64 classes = a.targets.size(1), step = a.labels.stride(0);
  const i64* const labels = a.labels.as<const i64>();
  const i64 own = class_of_label(a, sample, labels[sample * step], classes),
            other = class_of_label(a, m.partner, labels[m.partner * step], classes);
  const float off = a.smoothing / float(classes);
  float* const out = a.targets.as<float>() + sample * classes;
  for (i64 c = 0; c < classes; ++c)
    out[c] = std::fmaf(m.share, smooth_label(c == own, off, a.smoothing),
                       (1 - m.share) * smooth_label(c == other, off, a.smoothing));
}

void image_mix_reference(const ImageMixArgs& a, const Launch&) {
  image_mix_samples(a, 0, a.count());
  image_mix_targets(a);
}

}  // namespace

void image_mix_samples(const ImageMixArgs& a, i64 begin, i64 end) {
  dispatch_floating(a.out.dtype(), [&]<class T>() {
    for (i64 i = begin; i < end; ++i) mix_sample<T>(a, mixture_of(a, i), i);
  });
}

void image_mix_targets(const ImageMixArgs& a) {
  if (a.targets)
    for (i64 i = 0; i < a.count(); ++i) soft_target(a, mixture_of(a, i), i);
}

WT_VARIANTS(
    cpu, image_mix, ImageMixArgs,
    {.name = "rows", .rank = 10, .why_not = detail::bad_image_mix, .launch = image_mix_rows},
    {.name = "reference", .why_not = detail::bad_image_mix, .launch = image_mix_reference});

}  // namespace wt
