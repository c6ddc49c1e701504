// Colours of images on the cpu, by samples.
#include "warptape/kernels/image_color.h"

#include <algorithm>
#include <atomic>

#include "warptape/core/half.h"
#include "warptape/kernels/image/image_color_cpu.h"

namespace wt {
namespace {

ColorStats stats_of(const float* image, i64 pixels, bool grey) {
  ColorStats s;
  i64 sum = 0;
  const i64 green = grey ? 0 : pixels, blue = grey ? 0 : 2 * pixels;
  for (i64 k = 0; k < pixels; ++k) {
    const float v[3] = {detail::unit(image[k]), detail::unit(image[k + green]),
                        detail::unit(image[k + blue])};
    sum += grey_units({v[0], v[1], v[2]}, grey);
    for (int c = 0; c < 3; ++c) {
      s.least[c] = k ? std::min(s.least[c], v[c]) : v[c];
      s.most[c] = k ? std::max(s.most[c], v[c]) : v[c];
    }
  }
  s.mean = detail::mean_grey(sum, pixels);
  return s;
}

// Operation after operation, each over all of the image.
void color_sample(float* image, i64 pixels, bool grey, const ColorProgram& program) {
  const i64 green = grey ? 0 : pixels, blue = grey ? 0 : 2 * pixels;
  for (i32 op = 0; op < program.count; ++op) {
    const ColorStats stats =
        needs_stats(program.op[op]) ? stats_of(image, pixels, grey) : ColorStats{};
    for (i64 k = 0; k < pixels; ++k) {
      const Rgb p = detail::colored({image[k], image[k + green], image[k + blue]}, program, op,
                                    op + 1, stats, grey);
      if (!grey) image[k + green] = p.g, image[k + blue] = p.b;
      image[k] = p.r;
    }
  }
}

// The first one of the launch that is no colour goes to the mailbox.
void check_colors(const ImageColorArgs& a, i64 begin, i64 end) {
  const float* const images = a.images.as<const float>();
  for (i64 k = begin; k < end; ++k) {
    if (detail::is_color(images[k])) continue;
    i32 none = 0;  // threads look at parts of a batch
    if (std::atomic_ref<i32>(a.mailbox->raised)
            .compare_exchange_strong(none, i32(MailboxCode::pixel_out_of_range)))
      a.mailbox->op_id = a.op_id, a.mailbox->position = k,
      a.mailbox->value = i64(detail::float_bits(images[k])), a.mailbox->limit = 1;
    return;
  }
}

void image_color_reference(const ImageColorArgs& a, const Launch&) {
  image_color_samples(a, 0, a.count());
}

}  // namespace

void image_color_samples(const ImageColorArgs& a, i64 begin, i64 end) {
  const i64 channels = a.images.size(1), pixels = a.images.size(2) * a.images.size(3);
  if (pixels == 0) return;
  if (a.mailbox) check_colors(a, begin * channels * pixels, end * channels * pixels);
  for (i64 i = begin; i < end; ++i) {
    ColorProgram program;
    draw_colors(a.rule, a.seed, a.epoch, a.ids ? a.ids[i] : i, program);
    color_sample(a.images.as<float>() + i * channels * pixels, pixels, channels == 1, program);
  }
}

WT_VARIANTS(
    cpu, image_color, ImageColorArgs,
    {.name = "rows", .rank = 10, .why_not = detail::bad_image_color, .launch = image_color_rows},
    {.name = "reference", .why_not = detail::bad_image_color, .launch = image_color_reference});

}  // namespace wt
