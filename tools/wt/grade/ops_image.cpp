// A batch of pictures out of a dataset on the device, augmented.
#include <algorithm>
#include <cmath>
#include <utility>

#include "warptape/kernels/image_batch.h"
#include "warptape/tests/tolerance.h"
#include "warptape/tools/wt/grade/ops.h"

namespace wt::grade {
namespace {

// sizes: pictures, channels, rows, columns, of the batch: pictures, rows, columns; padding.
// flag: 1: in order instead of by a list, 2: shuffled instead, 4: reflected padding, 8: a hole,
// 16: pictures of f32, 32: neither moved nor mirrored. dtype: of the batch.
enum { kPictures, kChannels, kPictureRows, kPictureColumns, kBatch, kHeight, kWidth, kPadding };

std::vector<Plan> image_plans(Draws& d) {
  std::vector<Plan> all;
  const auto add = [&](std::vector<i64> s, int flag = 0) {
    all.push_back({.sizes = std::move(s), .flag = flag});
  };
  // All of the padding of all pictures: who forgets it leaves the dataset at both ends.
  add({5, 3, 6, d.odd(7, 9), 5, 10, 11, 2}, 32);
  add({20, 3, 9, d.odd(11, 15), 7, 9, 11, 2});
  add({5, 1, 1, 1, 1, 1, 1, 0}), add({9, 3, 8, 8, 5, 8, 8, 4}), add({6, 3, 7, 5, 3, 5, 3, 0});
  add({d.odd(33, 40), 1, 5, 7, d.odd(65, 80), 5, 7, 1}), add({4, 3, 32, 32, 2, 32, 32, 4});
  add({8, 4, 6, 6, 0, 6, 6, 1}), add({9, 3, 8, 8, 5, 8, 8, 0}, 32);
  for (const int flag : {1, 2, 4, 8, 16}) {
    Plan plan{.sizes = {9, 3, 10, 12, 6, 10, 12, 3}, .flag = flag};
    add_optional(all, plan);
  }
  for (const DType t : {DType::f16, DType::bf16})
    add_optional(all, {.dtype = t, .sizes = {9, 3, 8, 8, 5, 8, 8, 2}});
  add_optional(all, {.sizes = {9, 3, 8, 8, 5, 8, 8, 2}, .lie = Lie::swapped});
  return all;
}

// Places without repetition as far as there are enough.
std::vector<double> drawn_rows(i64 rows, i64 count, Draws& d) {
  std::vector<double> all;
  while (i64(all.size()) < count) {
    std::vector<double> round;
    for (i64 r = 0; r < rows; ++r) round.push_back(double(r));
    for (i64 r = rows; r-- > 1;) std::swap(round[size_t(r)], round[size_t(d.whole(0, r))]);
    all.insert(all.end(), round.begin(), round.end());
  }
  all.resize(size_t(count));
  return all;
}

Operand whole_numbers(const char* name, DType t, const Shape& shape, i64 most, Draws& d) {
  Operand o{.name = name, .dtype = t, .shape = shape};
  for (i64 k = 0; k < numel_of(shape); ++k) o.values.push_back(double(d.whole(0, most)));
  return o;
}

enum { kShuffle, kSeed, kEpoch, kPlace, kPad, kReflect, kMoved, kHole };

Problem make_images(const Plan& plan, Draws& d) {
  const std::vector<i64>& s = plan.sizes;
  Problem p{.label = str(dtype_name(plan.dtype), " ",
                         to_string(Shape{s[kBatch], s[kChannels], s[kHeight], s[kWidth]}), " of ",
                         s[kPictures], " pictures of ", s[kPictureRows], " x ", s[kPictureColumns],
                         ", padding ", s[kPadding])};
  static const std::pair<int, const char*> said[] = {
      {1, ", in order"}, {2, ", shuffled"},         {4, ", reflected"},
      {8, ", a hole"},   {16, ", pictures of f32"}, {32, ", neither moved nor mirrored"}};
  for (const auto& [flag, text] : said)
    if (plan.flag & flag) p.label += text;
  if (plan.lie != Lie::dense) p.label += str(", ", lie_name(plan.lie));
  Operand order{.name = "order", .dtype = DType::i64, .shape = {s[kBatch]}};
  order.values = drawn_rows(s[kPictures], s[kBatch], d);
  p.operands = {
      output("out", plan.dtype, {s[kBatch], s[kChannels], s[kHeight], s[kWidth]}, plan.lie),
      output("targets", DType::i64, {s[kBatch]}),
      whole_numbers("images", plan.flag & 16 ? DType::f32 : DType::u8,
                    {s[kPictures], s[kChannels], s[kPictureRows], s[kPictureColumns]}, 255, d),
      whole_numbers("labels", DType::i64, {s[kPictures]}, 9, d),
      plan.flag & 3 ? absent("order") : order};
  i64* const n = p.data.integers;
  n[kShuffle] = (plan.flag & 2) != 0, n[kSeed] = d.whole(0, 1 << 30), n[kEpoch] = d.whole(0, 99);
  n[kPlace] = plan.flag & 3 ? d.whole(0, s[kPictures] - s[kBatch]) : 0;
  n[kPad] = s[kPadding], n[kReflect] = (plan.flag & 4) != 0;
  n[kMoved] = !(plan.flag & 32), n[kHole] = plan.flag & 8 ? 4 : 0;
  p.data.reals[0] = plan.flag & 32 ? 0 : 0.5;
  for (int c = 0; c < 4; ++c) {
    p.data.reals[1 + c] = rounded(d.real(0.5, 2) / 255, DType::f32);
    p.data.reals[5 + c] = rounded(d.real(-2, 2), DType::f32);
  }
  return p;
}

// What is at a place of the batch: the pixel, -1 where there is none.
double pixel_at(const Operand& images, const ImageView& v, const ImageAugment& a, i64 row, i64 c,
                i64 i, i64 j, i64 width) {
  const bool hole = a.hole > 0 && i >= v.hole_top && i < v.hole_top + a.hole && j >= v.hole_left &&
                    j < v.hole_left + a.hole;
  if (hole) return -2;
  const i64 rows = images.shape[2], columns = images.shape[3];
  const i64 y = padded_place(i32(v.top + i), i32(rows), a.reflect);
  const i64 x =
      padded_place(i32(v.left + (v.mirrored ? width - 1 - j : j)), i32(columns), a.reflect);
  if (y < 0 || x < 0) return -1;
  return images.values[size_t(((row * images.shape[1] + c) * rows + y) * columns + x)];
}

void solve_images(Problem& p) {
  Operand &out = p.operands[0], &targets = p.operands[1];
  const Operand &images = p.operands[2], &labels = p.operands[3], &order = p.operands[4];
  const i64* const n = p.data.integers;
  ImageAugment a;
  a.padding = i32(n[kPad]), a.reflect = n[kReflect], a.random_crop = n[kMoved];
  a.mirror = float(p.data.reals[0]), a.hole = i32(n[kHole]);
  const BatchOrder rows{.rows = images.shape[0],
                        .shuffle = n[kShuffle] != 0,
                        .seed = u64(n[kSeed]),
                        .epoch = n[kEpoch],
                        .place = n[kPlace]};
  out.want.clear(), out.bound.clear(), targets.want.clear();
  const i64 height = out.shape[2], width = out.shape[3];
  for (i64 k = 0; k < out.shape[0]; ++k) {
    const i64 row = order.absent ? rows.row(k) : i64(order.values[size_t(k)]);
    const ImageView v =
        draw_image_view<false>(a, u64(n[kSeed]), n[kEpoch], row, i32(images.shape[2]),
                               i32(images.shape[3]), i32(height), i32(width));
    targets.want.push_back(labels.values[size_t(row)]);
    for (i64 e = 0; e < out.shape[1] * height * width; ++e) {
      const i64 c = e / (height * width);
      const double pixel = pixel_at(images, v, a, row, c, e / width % height, e % width, width);
      const double scale = p.data.reals[1 + c], shift = p.data.reals[5 + c];
      const double value = pixel < 0 ? 0 : pixel;  // padding is black, and is standardised
      const double want = pixel == -2 ? 0 : value * scale + shift;
      out.want.push_back(want);
      out.bound.push_back(
          bound_of(out, DType::f32, 2, want, std::fabs(value * scale) + std::fabs(shift)));
    }
  }
  targets.bound.assign(targets.want.size(), 0);
}

}  // namespace

void add_image_ops(std::vector<GradedOp>& to) {
  to.push_back({"image_batch",
                "image_batch",
                "kernels/image_batch.h",
                "pictures of a dataset, cropped, mirrored, standardised and cast, with labels",
                image_plans,
                make_images,
                solve_images,
                {.sizes = {24, 3, 32, 32, 8, 24, 24, 0}}});
}

}  // namespace wt::grade
