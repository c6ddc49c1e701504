// Transforms of batches of images.
#include "warptape/bench/gpu/maker.h"
#include "warptape/core/str.h"
#include "warptape/kernels/image_color.h"
#include "warptape/kernels/image_erase.h"
#include "warptape/kernels/image_mix.h"
#include "warptape/kernels/image_warp.h"

namespace wt::bench {
namespace {

struct BatchShape {
  i64 batch, channels, side;
};

// A batch of CIFAR-10 or of ImageNet, mixed up or cut, with smoothed labels.
Problem image_mix_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const BatchShape s = scale == Scale::small ? BatchShape{5, 3, shape ? 8 : 7}
                       : shape               ? BatchShape{256, 3, 224}
                                             : BatchShape{2000, 3, 32};
  const i64 classes = shape ? 1000 : 10;
  const std::string text =
      str(shape ? "cut " : "mixed ", s.batch, "x", s.channels, "x", s.side, "x", s.side);
  return problem_of(d, t, text, sets, [&](Maker& m, std::vector<Tensor>& out) {
    const Shape images{s.batch, s.channels, s.side, s.side};
    out = {m.out(images, t), m.out({s.batch, classes}, DType::f32)};
    const Tensor in = m.kept(m.normal(images, t)), labels = m.kept(m.indices({s.batch}, classes));
    ImageMixArgs a{.rule = {.mixup_alpha = 0.2, .cut_share = shape ? 1.0f : 0.0f},
                   .smoothing = 0.1f,
                   .seed = 3,
                   .epoch = 1};
    a.out = {out[0].impl()->data, &out[0].impl()->geometry};
    a.targets = {out[1].impl()->data, &out[1].impl()->geometry};
    a.images = {in.impl()->data, &in.impl()->geometry};
    a.labels = {labels.impl()->data, &labels.impl()->geometry};
    return a;
  });
}

// Batches of CIFAR-10 and of ImageNet for the transforms that see one batch.
BatchShape batch_shape(Scale scale, int shape) {
  if (scale == Scale::small) return {5, 3, shape ? 33 : 7};
  return shape ? BatchShape{256, 3, 224} : BatchShape{2000, 3, 32};
}
std::string text_of(const BatchShape& s) {
  return str(s.batch, "x", s.channels, "x", s.side, "x", s.side);
}

Problem image_warp_problem(Device d, DType, Scale scale, int shape, int sets) {
  const BatchShape s = batch_shape(scale, shape);
  return problem_of(d, DType::f32, text_of(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    const Shape images{s.batch, s.channels, s.side, s.side};
    out = {m.out(images, DType::f32)};
    const Tensor in = m.kept(m.normal(images, DType::f32));
    ImageWarpArgs a{.rule = {.bilinear = shape != 0, .angle_least = -30, .angle_most = 30},
                    .seed = 3};
    a.out = {out[0].impl()->data, &out[0].impl()->geometry};
    a.images = {in.impl()->data, &in.impl()->geometry};
    return a;
  });
}

Problem image_color_problem(Device d, DType, Scale scale, int shape, int sets) {
  const BatchShape s = batch_shape(scale, shape);
  return in_place(
      problem_of(d, DType::f32, text_of(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
        out = {m.normal({s.batch, s.channels, s.side, s.side}, DType::f32, Draw::positive)};
        ImageColorArgs a{.rule = {.ops = 15}, .seed = 3};
        for (int k = 0; k < 4; ++k)
          a.rule.least[k] = k == 3 ? -0.1 : 0.6, a.rule.most[k] = k == 3 ? 0.1 : 1.4;
        a.images = {out[0].impl()->data, &out[0].impl()->geometry};
        return a;
      }));
}

Problem image_erase_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const BatchShape s = batch_shape(scale, shape);
  return in_place(problem_of(d, t, text_of(s), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.normal({s.batch, s.channels, s.side, s.side}, t)};
    ImageEraseArgs a{.rule = {.noise = shape != 0}, .seed = 3};
    a.images = {out[0].impl()->data, &out[0].impl()->geometry};
    return a;
  }));
}

}  // namespace

void add_image_rows(std::vector<ProblemRow>& rows) {
  const std::vector<DType> floats{DType::f32, DType::f16, DType::bf16};
  rows.push_back({"image_color", {DType::f32}, 2, image_color_problem});
  rows.push_back({"image_erase", floats, 2, image_erase_problem});
  rows.push_back({"image_mix", floats, 2, image_mix_problem});
  rows.push_back({"image_warp", {DType::f32}, 2, image_warp_problem});
}

}  // namespace wt::bench
