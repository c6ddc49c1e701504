// Batches of images: every variant on every device against a plain loop in double.
#include "warptape/kernels/image_batch.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "warptape/tests/kernels/optim/optim_buffers.h"

using namespace wt;
using namespace wt_test;

namespace {

// N images whose every pixel says where it is from, and labels.
struct Images {
  Tensor pixels, labels;
  Images(i64 n, i64 c, i64 h, i64 w, Device d, bool channels_last = false, DType t = DType::u8) {
    std::vector<double> v(size_t(n * c * h * w)), l(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = double(mix64(i) % 256);
    for (size_t i = 0; i < l.size(); ++i) l[i] = double(mix64(i + 99) % 10);
    pixels = tensor(v).reshape({n, c, h, w}).to(t);
    if (channels_last) pixels = pixels.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
    pixels = pixels.to(d);
    labels = tensor(l).to(DType::i64).to(d);
  }
};

View view_of(const Tensor& t) { return {t.impl()->data, &t.impl()->geometry}; }

// Of an axis: which pixels make pixel `at`, and their shares.
std::vector<std::pair<i64, double>> shares(i64 at, i64 from, i64 to, bool antialias) {
  const double scale = double(from) / double(to), radius = antialias ? std::max(scale, 1.0) : 1,
               centre = (double(at) + 0.5) * scale;
  std::vector<std::pair<i64, double>> all;
  double sum = 0;
  for (i64 k = 0; k < from; ++k) {
    const double w = 1 - std::abs(double(k) + 0.5 - centre) / radius;
    if (w <= 0) continue;
    all.emplace_back(k, w);
    sum += w;
  }
  for (auto& [k, w] : all) w /= sum;
  return all;
}

// The window of image `row`, channel c, resized.
Values resized(const Values& from, i64 ih, i64 iw, i64 plane, const ImageView& v, i64 h, i64 w,
               bool antialias) {
  Values out;
  for (i64 y = 0; y < h; ++y)
    for (i64 x = 0; x < w; ++x) {
      double sum = 0;
      for (const auto& [i, wy] : shares(y, v.height, h, antialias))
        for (const auto& [k, wx] : shares(v.mirrored ? w - 1 - x : x, v.width, w, antialias))
          sum += wy * wx * from[size_t((plane * ih + v.top + i) * iw + v.left + k)];
      out.push_back(sum);
    }
  return out;
}

// The rule, spelled out: pad, cut a window, mirror it, standardise, make a hole.
Values expected(const ImageBatchArgs& a, const Tensor& images, const std::vector<i64>& rows, i64 h,
                i64 w) {
  const Values from = images.to(Device::cpu()).contiguous().to(DType::f64).to_vector<double>();
  const i64 channels = images.size(1), ih = images.size(2), iw = images.size(3),
            p = a.augment.padding;
  Values out;
  for (const i64 row : rows) {
    const ImageView v =
        draw_image_view(a.augment, a.seed, a.epoch, row, i32(ih), i32(iw), i32(h), i32(w));
    for (i64 c = 0; c < channels; ++c) {
      if (a.augment.fit != ImageFit::window) {
        for (const double pixel :
             resized(from, ih, iw, row * channels + c, v, h, w, a.augment.antialias))
          out.push_back(pixel * double(a.scale[c]) + double(a.shift[c]));
        continue;
      }
      Values padded(size_t((ih + 2 * p) * (iw + 2 * p)), 0.0);
      for (i64 y = -p; y < ih + p; ++y)
        for (i64 x = -p; x < iw + p; ++x) {
          i64 fy = y, fx = x;
          if (a.augment.reflect) {
            fy = std::abs(fy), fx = std::abs(fx);
            if (fy >= ih) fy = 2 * ih - 2 - fy;
            if (fx >= iw) fx = 2 * iw - 2 - fx;
          }
          if (fy >= 0 && fx >= 0 && fy < ih && fx < iw)
            padded[size_t((y + p) * (iw + 2 * p) + x + p)] =
                from[size_t(((row * channels + c) * ih + fy) * iw + fx)];
        }
      for (i64 y = 0; y < h; ++y)
        for (i64 x = 0; x < w; ++x) {
          const i64 fx = v.mirrored ? w - 1 - x : x;
          const double pixel = padded[size_t((v.top + p + y) * (iw + 2 * p) + v.left + p + fx)];
          const bool hole = y >= v.hole_top && y < v.hole_top + a.augment.hole &&
                            x >= v.hole_left && x < v.hole_left + a.augment.hole;
          out.push_back(hole ? 0 : pixel * double(a.scale[c]) + double(a.shift[c]));
        }
    }
  }
  return out;
}

std::vector<i64> rows_of(const ImageBatchArgs& a, i64 n, i64 total) {
  std::vector<i64> rows;
  for (i64 i = 0; i < n; ++i)
    rows.push_back(a.shuffle ? i64(permute(permutation_key(a.seed, u64(a.epoch)), u64(a.place + i),
                                           u64(total)))
                             : a.place + i);
  return rows;
}

void set_channels(ImageBatchArgs& a) {
  const float scale[] = {1 / 63.0f, 1 / 62.1f, 1 / 66.7f, 0.5f},
              shift[] = {-1.99f, -1.98f, -1.7f, 3};
  std::copy(scale, scale + 4, a.scale);
  std::copy(shift, shift + 4, a.shift);
}

struct Shapes {
  i64 c, h, w, out_h, out_w;
  ImageAugment augment;
};

}  // namespace

TEST_CASE("image_batch: every variant against the rule, in all layouts and dtypes", "[data]") {
  const Shapes shapes[] = {
      {3, 32, 32, 32, 32, {}},
      {3, 32, 32, 32, 32, {.padding = 4, .random_crop = true, .mirror = 0.5f, .hole = 8}},
      {3, 32, 32, 32, 32, {.padding = 4, .reflect = true, .random_crop = true, .mirror = 0.5f}},
      {1, 28, 28, 24, 24, {.random_crop = true, .mirror = 1}},
      {1, 28, 28, 20, 26, {}},  // the middle
      {4, 5, 7, 3, 5, {.random_crop = true, .mirror = 0.5f, .hole = 3}},
      {2, 1, 1, 1, 1, {.mirror = 0.5f, .hole = 1}},
      {1, 3, 2, 7, 6, {.padding = 2}},                         // the window is the padded image
      {3, 40, 33, 37, 16, {.random_crop = true, .hole = 60}},  // nothing but the hole
      {3, 40, 50, 16, 16, {.fit = ImageFit::crop, .mirror = 0.5f}},
      {1, 40, 50, 12, 9, {.fit = ImageFit::crop, .area_most = 0.2f, .antialias = false}},
      {3, 31, 17, 8, 8, {.fit = ImageFit::whole}},
      {4, 5, 6, 12, 16, {.fit = ImageFit::whole, .mirror = 1}},
      {1, 1, 1, 4, 4, {.fit = ImageFit::crop}},
  };
  for (const Shapes& s : shapes)
    for (const DType t : {f32, f16, bf16})
      for (const bool last : {false, true})
        for_each_variant<ImageBatchArgs>([&](Device d, auto launch) {
          const i64 total = 13, n = 5;
          CAPTURE(s.c, s.h, s.w, s.out_h, s.out_w, dtype_name(t), last);
          const Images in(total, s.c, s.h, s.w, d, last);
          ImageBatchArgs a{.seed = 3, .epoch = 2, .place = 7, .augment = s.augment};
          a.shuffle = true;
          set_channels(a);
          Tensor out = full({n, s.c, s.out_h, s.out_w}, 77, {.dtype = t, .device = d});
          if (last)
            out = full({n, s.out_h, s.out_w, s.c}, 77, {.dtype = t, .device = d})
                      .permute({0, 3, 1, 2});
          const Tensor targets = zeros({n}, {.dtype = DType::i64, .device = d});
          a.out = view_of(out), a.images = view_of(in.pixels);
          a.targets = static_cast<i64*>(targets.impl()->data);
          a.labels = static_cast<const i64*>(in.labels.impl()->data);
          if (!launch(a)) return;
          const std::vector<i64> rows = rows_of(a, n, total);
          const Values want = expected(a, in.pixels, rows, s.out_h, s.out_w),
                       got = out.to(Device::cpu()).contiguous().to(f64).to_vector<double>();
          REQUIRE(got.size() == want.size());
          const double unit = t == f32   ? (s.augment.fit == ImageFit::window ? 1e-6 : 1e-5)
                              : t == f16 ? 1e-3
                                         : 8e-3;
          double worst = 0;
          for (size_t i = 0; i < got.size(); ++i)
            worst = std::max(worst, std::abs(got[i] - want[i]) / (1 + std::abs(want[i])));
          CHECK(worst <= unit);
          const std::vector<i64> labels = in.labels.to_vector<i64>(), y = targets.to_vector<i64>();
          for (i64 i = 0; i < n; ++i) CHECK(y[size_t(i)] == labels[size_t(rows[size_t(i)])]);
        });
}

TEST_CASE("image_batch: the same bits on every device and by every variant", "[data]") {
  Values first;
  for_each_variant<ImageBatchArgs>([&](Device d, auto launch) {
    const Images in(50, 3, 32, 32, d);
    ImageBatchArgs a{.seed = 11,
                     .epoch = 4,
                     .augment = {.padding = 4, .random_crop = true, .mirror = 0.5f, .hole = 6}};
    a.shuffle = true;
    set_channels(a);
    const Tensor out = empty({50, 3, 32, 32}, {.dtype = f32, .device = d});
    a.out = view_of(out), a.images = view_of(in.pixels);
    REQUIRE(launch(a));
    const Values got = out.to_vector<double>();
    if (first.empty()) first = got;
    CHECK(got == first);
  });
}

TEST_CASE("image_batch: lists of rows, places and a cursor on the device say the same", "[data]") {
  for_each_variant<ImageBatchArgs>([&](Device d, auto launch) {
    const i64 total = 21, n = 6;
    const Images in(total, 1, 8, 8, d);
    ImageBatchArgs a{.seed = 5, .augment = {.padding = 1, .random_crop = true, .mirror = 0.5f}};
    const auto batch = [&] {
      const Tensor out = empty({n, 1, 8, 8}, {.dtype = f32, .device = d});
      a.out = view_of(out), a.images = view_of(in.pixels);
      CHECK(launch(a));
      return out.to_vector<double>();
    };
    for (const bool shuffle : {false, true}) {
      a.shuffle = shuffle, a.epoch = 9, a.place = 12, a.cursor = nullptr, a.order = nullptr;
      const Values want = batch();
      const Tensor rows = tensor(rows_of(a, n, total)).to(d);
      a.order = static_cast<const i64*>(rows.impl()->data);
      CHECK(batch() == want);
      a.order = nullptr, a.epoch = 1, a.place = 0;  // what the cursor says counts
      const Tensor cursor = tensor(std::vector<i64>{9, 12}).to(d);
      a.cursor = static_cast<const i64*>(cursor.impl()->data);
      CHECK(batch() == want);
    }
  });
}

TEST_CASE("image_batch: what a sample becomes does not depend on its batch", "[data]") {
  const ImageAugment augment{.padding = 4, .random_crop = true, .mirror = 0.5f, .hole = 5};
  for_each_variant<ImageBatchArgs>([&](Device d, auto launch) {
    const Images in(30, 3, 16, 16, d);
    const auto batch = [&](i64 place, i64 n, i64 epoch) {
      ImageBatchArgs a{.seed = 1, .epoch = epoch, .place = place, .augment = augment};
      const Tensor out = empty({n, 3, 16, 16}, {.dtype = f32, .device = d});
      a.out = view_of(out), a.images = view_of(in.pixels);
      CHECK(launch(a));
      return out.to_vector<double>();
    };
    const Values all = batch(0, 30, 3), part = batch(7, 9, 3);
    const size_t each = 3 * 16 * 16;
    CHECK(part == Values(all.begin() + i64(7 * each), all.begin() + i64(16 * each)));
    CHECK(batch(0, 30, 4) != all);
    CHECK(batch(0, 30, 3) == all);
  });
}

// torch 2: interpolate(x, size, mode="bilinear", antialias=True, align_corners=False) of the 5 x 7
// image whose pixel k is k * k % 23.
TEST_CASE("image_batch: resizes as PyTorch does", "[data]") {
  for_each_variant<ImageBatchArgs>([&](Device d, auto launch) {
    std::vector<double> pixels;
    for (int k = 0; k < 35; ++k) pixels.push_back(k * k % 23);
    const Tensor in = tensor(pixels).reshape({1, 1, 5, 7}).to(DType::u8).to(d),
                 out = empty({1, 1, 2, 3}, {.dtype = f32, .device = d});
    ImageBatchArgs a{.augment = {.fit = ImageFit::whole}};
    a.out = view_of(out), a.images = view_of(in);
    if (!launch(a)) return;
    const Values got = out.to_vector<double>(),
                 want{8.012987, 8.417113, 8.448053, 6.353896, 7.013369, 9.548700};
    for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) < 1e-4);
  });
}

TEST_CASE("image_batch: parts of images have the sizes and shapes that were asked for", "[data]") {
  const ImageAugment a{.fit = ImageFit::crop};
  const int draws = 5000;
  double share = 0, log_ratio = 0;
  for (int i = 0; i < draws; ++i) {
    const ImageView v = draw_image_view(a, 3, i % 7, i, 300, 400, 224, 224);
    REQUIRE((v.top >= 0 && v.left >= 0 && v.height > 0 && v.width > 0));
    REQUIRE((v.top + v.height <= 300 && v.left + v.width <= 400));
    const double area = double(v.height) * v.width / (300 * 400),
                 ratio = double(v.width) / v.height;
    REQUIRE((area > 0.078 && area <= 1 && ratio > 0.74 && ratio < 1.35));
    share += area / draws, log_ratio += std::log(ratio) / draws;
  }
  // Means of the rule itself, by 400,000 draws of another generator: large parts are drawn again
  // where they do not fit into the image.
  CHECK(std::abs(share - 0.4330) < 0.012);
  CHECK(std::abs(log_ratio - 0.0307) < 0.01);
  // No part of this shape is large enough: the middle, in the nearest ratio.
  const ImageView narrow =
      draw_image_view({.fit = ImageFit::crop, .area_least = 1}, 3, 0, 1, 100, 10, 8, 8);
  CHECK((narrow.width == 10 && narrow.height == 13 && narrow.top == 43 && narrow.left == 0));
}

// A permutation of [0, N) that is asked for another place may never come back.
TEST_CASE("image_batch: places beyond the images begin the order anew", "[data]") {
  for_each_variant<ImageBatchArgs>([&](Device d, auto launch) {
    const Images in(5, 1, 8, 8, d);
    ImageBatchArgs a{.seed = 2};
    a.shuffle = true, a.images = view_of(in.pixels);
    const auto batch = [&](i64 place) {
      a.place = place;
      const Tensor out = empty({4, 1, 8, 8}, {.dtype = f32, .device = d});
      a.out = view_of(out);
      CHECK(launch(a));
      return out.to_vector<double>();
    };
    const Values late = batch(3), first = batch(0), last = batch(1);
    CHECK(Values(late.begin() + 128, late.end()) == Values(first.begin(), first.begin() + 128));
    CHECK(Values(late.begin(), late.begin() + 128) == Values(last.begin() + 128, last.end()));
  });
}

TEST_CASE("image_batch: draws follow the ids", "[data]") {
  for_each_variant<ImageBatchArgs>([&](Device d, auto launch) {
    const Images in(4, 1, 9, 9, d);
    const Tensor ids = tensor(std::vector<i64>{2, 3, 0, 1}).to(d);
    ImageBatchArgs a{.seed = 8, .augment = {.padding = 3, .random_crop = true, .mirror = 0.5f}};
    const Tensor out = empty({4, 1, 9, 9}, {.dtype = f32, .device = d});
    a.out = view_of(out), a.images = view_of(in.pixels);
    a.ids = static_cast<const i64*>(ids.impl()->data);
    if (!launch(a)) return;
    const Values got = out.to_vector<double>();
    const Values from = in.pixels.to(Device::cpu()).to(f64).to_vector<double>();
    for (i64 i = 0; i < 4; ++i) {
      const ImageView v = draw_image_view(a.augment, 8, 0, (i + 2) % 4, 9, 9, 9, 9);
      const i64 y = 4, x = 4, fy = v.top + y, fx = v.left + (v.mirrored ? 8 - x : x);
      const bool inside = fy >= 0 && fx >= 0 && fy < 9 && fx < 9;
      CHECK(got[size_t(i * 81 + 40)] == (inside ? from[size_t(i * 81 + fy * 9 + fx)] : 0));
    }
  });
}

TEST_CASE("image_batch: windows, mirrors and holes are uniform", "[data]") {
  const ImageAugment a{.padding = 2, .random_crop = true, .mirror = 0.25f, .hole = 2};
  const int draws = 20'000;
  std::vector<int> tops(5), lefts(5), hole(6);
  int mirrored = 0;
  for (int i = 0; i < draws; ++i) {
    const ImageView v = draw_image_view(a, 7, i % 3, i, 6, 6, 6, 6);
    REQUIRE((v.top >= -2 && v.top <= 2 && v.left >= -2 && v.left <= 2));
    REQUIRE((v.hole_top >= -1 && v.hole_top <= 4 && v.hole_left >= -1 && v.hole_left <= 4));
    ++tops[size_t(v.top + 2)], ++lefts[size_t(v.left + 2)], ++hole[size_t(v.hole_left + 1)];
    mirrored += v.mirrored;
  }
  const auto even = [&](const std::vector<int>& counts) {
    const double want = double(draws) / double(counts.size());
    for (const int c : counts) CHECK(std::abs(c - want) < 5 * std::sqrt(want));
  };
  even(tops), even(lefts), even(hole);
  CHECK(std::abs(mirrored - draws * 0.25) < 5 * std::sqrt(draws * 0.1875));
  // Without draws nothing moves, whatever the seed is.
  const ImageView still = draw_image_view({}, 9, 1, 4, 8, 9, 4, 4);
  CHECK((still.top == 2 && still.left == 2 && !still.mirrored));
  // round(free / 2) in Python, half to even: 0, 0, 1, 2, 2, 2, 3, 4.
  const i32 starts[] = {0, 0, 1, 2, 2, 2, 3, 4};
  for (i32 free = 0; free < 8; ++free)
    CHECK(draw_image_view({}, 0, 0, 0, 4 + free, 4, 4, 4).top == starts[free]);
}

TEST_CASE("image_batch: images of floats, empty batches, refused arguments", "[data]") {
  for_each_variant<ImageBatchArgs>([&](Device d, auto launch) {
    for (const DType from : {f32, f16, bf16}) {
      const Images in(4, 3, 8, 8, d, false, from);
      ImageBatchArgs a{.place = 1};
      set_channels(a);
      const Tensor out = empty({3, 3, 8, 8}, {.dtype = f32, .device = d});
      a.out = view_of(out), a.images = view_of(in.pixels);
      if (!launch(a)) continue;
      const Values want = expected(a, in.pixels, {1, 2, 3}, 8, 8), got = out.to_vector<double>();
      double worst = 0;
      for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
      CHECK(worst < 1e-4);
    }
    const Images in(4, 3, 8, 8, d);
    ImageBatchArgs a{};
    const Tensor none = empty({0, 3, 8, 8}, {.dtype = f32, .device = d});
    a.out = view_of(none), a.images = view_of(in.pixels);
    CHECK(launch(a));
    const Tensor f64_out = empty({1, 3, 8, 8}, {.dtype = f64, .device = d});
    a.out = view_of(f64_out);
    CHECK_FALSE(launch(a));
  });
  const auto why = [](const ImageAugment& a) { return bad_image_augment(a, 8, 8, 8, 8); };
  CHECK(why({}) == nullptr);
  CHECK(why({.padding = 7, .reflect = true}) == nullptr);
  CHECK(std::string(why({.padding = 8, .reflect = true})).find("less than") != std::string::npos);
  CHECK(why({.mirror = 1.5f}) != nullptr);
  CHECK(why({.padding = -1}) != nullptr);
  CHECK(why({.hole = -1}) != nullptr);
  CHECK(bad_image_augment({.padding = 1}, 8, 8, 11, 8) != nullptr);
}
