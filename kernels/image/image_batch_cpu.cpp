#include "warptape/kernels/image/image_batch_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "warptape/kernels/cpu/half_rows.h"
#include "warptape/kernels/cpu/pieces.h"

namespace wt {
namespace {

// A u8 has 256 values: what becomes of each is worked out once a batch, and a pixel is a look-up.
// With a fused multiply and add, whatever the processor has: the bits of every device.
using Levels = float[kImageChannels][256];

struct ImageRows {
  const ImageBatchArgs& a;
  detail::ImageSource source;
  i64 epoch;
  i32 h, w, rows, columns;
  Levels levels;

  explicit ImageRows(const ImageBatchArgs& args)
      : a(args),
        source(args),
        epoch(source.rows.epoch_now()),
        h(i32(a.out.size(2))),
        w(i32(a.out.size(3))),
        rows(i32(a.images.size(2))),
        columns(i32(a.images.size(3))) {
    for (i64 c = 0; c < a.out.size(1); ++c)
      for (int v = 0; v < 256; ++v) levels[c][v] = std::fmaf(float(v), a.scale[c], a.shift[c]);
  }

  // Row y of a channel of the output; `from` is the image's channel.
  void fill(float* out, const u8* from, const ImageView& v, i64 c, i32 y) const {
    const float* const level = levels[c];
    const i32 from_y = padded_place(v.top + y, rows, a.augment.reflect);
    if (from_y < 0) {
      std::fill_n(out, w, level[0]);
    } else {
      const u8* const line = from + from_y * a.images.stride(2);
      const i64 step = a.images.stride(3);
      for (i32 x = 0; x < w; ++x) {
        const i32 from_x = padded_place(v.left + x, columns, a.augment.reflect);
        out[x] = level[from_x < 0 ? 0 : line[from_x * step]];
      }
      if (v.mirrored) std::reverse(out, out + w);
    }
    if (y >= v.hole_top && y < v.hole_top + a.augment.hole) {
      const i32 begin = std::max(v.hole_left, 0), end = std::min(v.hole_left + a.augment.hole, w);
      if (begin < end) std::fill(out + begin, out + end, 0.0f);
    }
  }

  void store(const float* row, i64 offset) const {
    if (a.out.dtype() == DType::f16)
      detail::convert_row(a.out.as<Half>() + offset, row, w);
    else
      detail::convert_row(a.out.as<BFloat16>() + offset, row, w);
  }

  void sample(i64 i, float* scratch) const {
    const i64 row = source.rows.row(i, epoch);
    if (a.targets) a.targets[i] = a.labels[row];
    const ImageView v =
        draw_image_view(a.augment, a.seed, epoch, source.id(i, row), rows, columns, h, w);
    for (i64 c = 0; c < a.out.size(1); ++c) {
      const u8* const from =
          a.images.as<const u8>() + row * a.images.stride(0) + c * a.images.stride(1);
      for (i32 y = 0; y < h; ++y) {
        const i64 offset = ((i * a.out.size(1) + c) * h + y) * w;
        if (a.out.dtype() == DType::f32) {
          fill(a.out.as<float>() + offset, from, v, c, y);
        } else {
          fill(scratch, from, v, c, y);
          store(scratch, offset);
        }
      }
    }
  }
};

}  // namespace

const char* image_batch_rows_refusal(const ImageBatchArgs& a) {
  if (const char* why = detail::bad_image_batch(a)) return why;
  if (a.images.dtype() != DType::u8) return "images must be u8";
  if (a.augment.fit != ImageFit::window) return "images are resized";
  return a.out.dense() ? nullptr : "the output must be contiguous";
}

void image_batch_rows(const ImageBatchArgs& a, const Launch&) {
  if (a.out.numel() == 0 && !a.targets) return;
  const ImageRows work(a);
  in_row_pieces(a.count(), std::max<i64>(a.out.numel() / std::max<i64>(a.count(), 1), 1),
                [&](i64 begin, i64 end) {
                  std::vector<float> scratch(size_t(work.w));
                  for (i64 i = begin; i < end; ++i) work.sample(i, scratch.data());
                });
}

}  // namespace wt
