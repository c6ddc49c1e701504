// Random erasing: every variant on every device against a plain loop, and what is drawn.
#include "warptape/kernels/image_erase.h"

#include <cmath>

#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/kernels/optim/optim_buffers.h"

using namespace wt;
using namespace wt_test;

namespace {

View view_of(const Tensor& t) { return {t.impl()->data, &t.impl()->geometry}; }
Values host(const Tensor& t) {
  return t.to(Device::cpu()).contiguous().to(f64).to_vector<double>();
}

}  // namespace

TEST_CASE("image_erase: every variant against the rule, in both layouts and all dtypes", "[data]") {
  const Shape shapes[] = {{6, 3, 9, 8},  {4, 1, 28, 28}, {3, 4, 5, 7}, {2, 2, 1, 1},
                          {3, 3, 40, 3}, {2, 3, 0, 4},   {0, 3, 4, 4}};
  for (const Shape& s : shapes)
    for (const DType t : {f32, f16, bf16})
      for (const bool last : {false, true})
        for (const bool noise : {false, true})
          for_each_variant<ImageEraseArgs>([&](Device d, auto launch) {
            CAPTURE(s, dtype_name(t), last, noise);
            const i64 n = s[0], c = s[1], h = s[2], w = s[3];
            Tensor images = tensor(numbers(n * c * h * w, 4)).reshape(s).to(t).to(d);
            if (last) images = images.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
            std::vector<i64> numbers_of;
            for (i64 i = 0; i < n; ++i) numbers_of.push_back(100 - 7 * i);
            const Tensor ids = tensor(numbers_of).to(d);
            ImageEraseArgs a{.rule = {.p = 0.8f, .noise = noise}, .seed = 4, .epoch = 3};
            for (int k = 0; k < 4; ++k) a.value[k] = float(k) - 1.5f;
            a.images = view_of(images), a.ids = static_cast<const i64*>(ids.impl()->data);
            Values want = host(images);
            for (i64 i = 0; i < n; ++i) {
              const i64 id = numbers_of[size_t(i)];
              const ErasedBox b = draw_erased_box(a.rule, 4, 3, id, i32(h), i32(w));
              for (i64 k = 0; k < c * h * w; ++k) {
                const i64 y = k / w % h, x = k % w;
                if (y < b.top || y >= b.bottom || x < b.left || x >= b.right) continue;
                want[size_t(i * c * h * w + k)] =
                    noise ? double(erase_noise(erase_noise_key(4, 3, id), k))
                          : double(k / (h * w)) - 1.5;
              }
            }
            REQUIRE(launch(a));
            const Values rounded = host(tensor(want).to(t));
            CHECK(host(images) == rounded);
          });
}

TEST_CASE("image_erase: shares, shapes and places are as torchvision draws them", "[data]") {
  const int draws = 20'000;
  int erased = 0;
  double share = 0, log_ratio = 0, top = 0;
  for (int i = 0; i < draws; ++i) {
    const ErasedBox b = draw_erased_box({.p = 0.4f}, 3, i % 7, i, 200, 150);
    const i32 h = b.bottom - b.top, w = b.right - b.left;
    if (h == 0) continue;
    ++erased;
    REQUIRE((b.top >= 0 && b.left >= 0 && b.bottom <= 200 && b.right <= 150 && h < 200 && w < 150));
    const double area = double(h) * w / 30'000, ratio = double(h) / w;
    REQUIRE((area > 0.019 && area < 0.335 && ratio > 0.29 && ratio < 3.4));
    share += area, log_ratio += std::log(ratio), top += double(b.top) / (200 - h);
  }
  CHECK(std::abs(erased - draws * 0.4) < 5 * std::sqrt(draws * 0.24));
  // Means of the rule itself: of torchvision's ten tries, 10^6 draws of another generator.
  CHECK(std::abs(share / erased - 0.1714) < 0.006);
  CHECK(std::abs(log_ratio / erased - 0.0269) < 0.04);
  CHECK(std::abs(top / erased - 0.5) < 0.02);
  // Other samples, epochs and seeds: other boxes. The whole of an image is never taken.
  const auto at = [](u64 seed, i64 epoch, i64 sample) {
    const ErasedBox b = draw_erased_box({.p = 1}, seed, epoch, sample, 1000, 1000);
    return std::vector<i32>{b.top, b.left, b.bottom, b.right};
  };
  CHECK(at(1, 2, 3) == at(1, 2, 3));
  CHECK(at(1, 2, 3) != at(2, 2, 3));
  CHECK(at(1, 2, 3) != at(1, 3, 3));
  CHECK(at(1, 2, 3) != at(1, 2, 4));
  CHECK(draw_erased_box({.p = 1, .area_least = 1, .area_most = 1}, 0, 0, 0, 9, 9).bottom == 0);
}

TEST_CASE("image_erase: noise is normal", "[data]") {
  const int n = 40'000;
  double mean = 0, square = 0, next = 0;
  for (int k = 0; k < n; ++k) {
    const double x = double(erase_noise(erase_noise_key(1, 2, 3), k));
    mean += x / n, square += x * x / n;
    next += x * double(erase_noise(erase_noise_key(1, 2, 4), k)) / n;
  }
  CHECK(std::abs(mean) < 5 / std::sqrt(n));
  CHECK(std::abs(square - 1) < 5 * std::sqrt(2.0 / n));
  CHECK(std::abs(next) < 5 / std::sqrt(n));
}

TEST_CASE("image_erase: refused arguments", "[data]") {
  for_each_variant<ImageEraseArgs>([&](Device d, auto launch) {
    const Tensor u8s = zeros({1, 1, 2, 2}, {.dtype = DType::u8, .device = d}),
                 many = zeros({1, 5, 2, 2}, {.device = d}),
                 gaps = zeros({1, 1, 2, 4}, {.device = d}).slice(3, {0, 4, 2});
    for (const Tensor& t : {u8s, many, gaps}) {
      ImageEraseArgs a{};
      a.images = view_of(t);
      CHECK_FALSE(launch(a));
    }
  });
  CHECK(bad_erase_rule({}) == nullptr);
  CHECK(bad_erase_rule({.p = 2}) != nullptr);
  CHECK(bad_erase_rule({.area_least = 0.5f}) != nullptr);
  CHECK(bad_erase_rule({.log_ratio_least = 2}) != nullptr);
}
