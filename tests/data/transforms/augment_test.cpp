// Compose's rotations, colours and erasing.
#include <algorithm>
#include <cmath>
#include <set>

#include "warptape/core/factories.h"
#include "warptape/data/transforms.h"
#include "warptape/tests/data/pictures.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt_test;
using data::Compose;

namespace {

const Compose kEverything{
    data::RandomCrop{12, 2},
    data::RandomHorizontalFlip{},
    data::RandomRotation{30, data::Interpolation::bilinear, {10, 20, 30}},
    data::ColorJitter{0.4, 0.4, 0.4, 0.1},
    data::RandomAffine{.degrees = 10, .translate = {0.1, 0.2}, .scale = {0.8, 1.2}, .shear_x = 5},
    data::RandomGrayscale{0.2},
    data::RandAugment{},
    data::ToTensor{},
    data::Normalize{{0.5}, {0.25}},
    data::Cutout{3},
    data::RandomErasing{.random = true}};

}  // namespace

TEST_CASE("Compose: what a sample becomes is the same in every batch, on every device", "[data]") {
  const Tensor images = some_pictures(6, 12, 12);
  const std::vector<i64> rows{40, 3, 17, 8, 5, 99};
  const data::ComposeCall call{.samples = rows, .epoch = 2, .seed = 7};
  const Tensor all = kEverything(images, call);
  CHECK(all.shape() == Shape{6, 3, 12, 12});
  for (i64 i = 0; i < 6; ++i) {
    const i64 row = rows[size_t(i)];
    CHECK(pixel_values(kEverything(images[i], {.samples = {&row, 1}, .epoch = 2, .seed = 7})) ==
          pixel_values(all[i]));
  }
  CHECK(pixel_values(kEverything(images, {.samples = rows, .epoch = 3, .seed = 7})) !=
        pixel_values(all));
  CHECK(pixel_values(kEverything(images, {.samples = rows, .epoch = 2, .seed = 8})) !=
        pixel_values(all));
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor there = kEverything(images.to(d), call);
    CHECK(there.device() == d);
    CHECK(pixel_values(there) == pixel_values(all));  // nothing is resized: the same bits
    data::ComposeCall last = call;
    last.channels_last = true;
    const Tensor nhwc = kEverything(images.to(d), last);
    CHECK(nhwc.strides()[1] == 1);
    CHECK(pixel_values(nhwc) == pixel_values(all));
    last.dtype = DType::bf16;
    const std::vector<double> half = pixel_values(kEverything(images.to(d), last)),
                              want = pixel_values(all);
    double worst = 0;
    for (size_t i = 0; i < half.size(); ++i)
      worst = std::max(worst, std::abs(half[i] - want[i]) / (1 + std::abs(want[i])));
    CHECK(worst < 4e-3);
  }
  CHECK(kEverything(some_pictures(0, 12, 12)).shape() == Shape{0, 3, 12, 12});
}

TEST_CASE("Compose: a quarter turn moves pixels and nothing else", "[data]") {
  for (const Device d : kernel_devices())
    for (const auto mode : {data::Interpolation::nearest, data::Interpolation::bilinear})
      for (const i64 side : {1, 4, 7}) {
        const Tensor images = some_pictures(2, side, side, 1, d);
        const Compose turn{data::RandomRotation{{90, 90}, mode}};
        const std::vector<double> in = pixel_values(images), out = pixel_values(turn(images));
        for (i64 i = 0; i < 2 * side * side; ++i) {
          const i64 n = i / (side * side), y = i / side % side, x = i % side;
          // Counter-clockwise: what was at the right is at the top.
          CHECK(std::abs(out[size_t(i)] - in[size_t((n * side + x) * side + side - 1 - y)]) < 1e-2);
        }
      }
}

TEST_CASE("Compose: fills are in the image's own numbers", "[data]") {
  for (const Device d : kernel_devices()) {
    const Tensor images = some_pictures(1, 9, 9, 3, d);
    const data::RandomRotation turn{{45, 45}, data::Interpolation::nearest, {255, 51, 102}};
    const auto corner = [&](const Compose& c, const Tensor& x) {
      const std::vector<double> v = pixel_values(c(x));
      return std::vector<double>{v[0], v[81], v[162]};
    };
    const auto near = [](const std::vector<double>& got, const std::vector<double>& want) {
      for (size_t k = 0; k < 3; ++k) CHECK(std::abs(got[k] - want[k]) < 1e-4);
    };
    near(corner({turn}, images), {255, 51, 102});
    near(corner({turn, data::ToTensor{}}, images), {1, 0.2, 0.4});
    near(corner({turn, data::ToTensor{}, data::Normalize{{0.2}, {0.1}}}, images), {8, 0, 2});
    near(corner({turn}, images.to(DType::f32)), {255, 51, 102});
    const data::RandomHorizontalFlip flip{0.5};  // one more launch before it
    near(corner({flip, turn}, images), {255, 51, 102});
    near(corner({flip, turn}, images.to(DType::f32)), {255, 51, 102});
  }
}

TEST_CASE("Compose: colours of u8 images, raw and in [0, 1]", "[data]") {
  for (const Device d : kernel_devices()) {
    const Tensor images = some_pictures(2, 5, 6, 3, d);
    const data::ColorJitter brighter{.brightness = {1.5, 1.5}};
    const std::vector<double> in = pixel_values(images),
                              raw = pixel_values(Compose{brighter}(images)),
                              unit = pixel_values(Compose{brighter, data::ToTensor{}}(images)),
                              grey = pixel_values(Compose{data::RandomGrayscale{1}}(images));
    for (size_t i = 0; i < in.size(); ++i) {
      CHECK(std::abs(raw[i] - std::min(255.0, in[i] * 1.5)) < 1e-3);
      CHECK(std::abs(unit[i] - std::min(1.0, in[i] * 1.5 / 255)) < 1e-6);
      const size_t p = i / 90 * 90 + i % 30;
      CHECK(std::abs(grey[i] - (0.2989 * in[p] + 0.587 * in[p + 30] + 0.114 * in[p + 60])) < 1e-3);
    }
    CHECK(pixel_values(images) == in);
    const Tensor one = images.slice(1, {0, 1});
    CHECK(Compose{data::ColorJitter{0.4, 0.4, 0.4, 0.1}}(one).shape() == Shape{2, 1, 5, 6});
  }
}

TEST_CASE("Compose: colours of floats that are not in [0, 1] are refused, not cut", "[data]") {
  using namespace wt::data;
  // The mean of FashionMnist's standardised images was 0.1 and became 0.3.
  const std::vector<std::vector<Transform>> lists{
      {ColorJitter{0.4, 0.4, 0.4, 0.1}},
      {RandomGrayscale{0}},  // whatever is drawn
      {RandAugment{.num_ops = 1}},
      {RandomHorizontalFlip{0}, ColorJitter{0.4}, RandAugment{}},
      {RandomRotation{{0, 0}, Interpolation::bilinear}, RandomGrayscale{1}}};
  for (const Device d : kernel_devices())
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (const std::vector<Transform>& list : lists) {
        const Compose colors(list);
        CAPTURE(to_string(d), dtype_name(dtype), colors.text());
        const auto refusal = [&](const std::vector<float>& pixels) {
          const Tensor x = tensor(pixels).view({i64(pixels.size()) / 12, 3, 2, 2}).to(dtype).to(d);
          return message_of([&] { (void)colors(x).to_vector<float>(); });
        };
        std::vector<float> pixels(24, 0.25f);
        pixels[0] = 0, pixels[13] = 1;
        CHECK(refusal(pixels) == "");
        pixels[2] = 1.001f;  // what a sum of weights may round to, and far less than a level
        CHECK(refusal(pixels) == "");
        for (const float outside : {-0.8125f, 1.5f, 255.0f, NAN, INFINITY}) {
          pixels[17] = outside;
          const std::string why = refusal(pixels);
          CHECK(mentions(why, "[Compose]"));
          CHECK(mentions(why, "[0, 1]"));
          if (std::isfinite(outside)) CHECK(mentions(why, str(outside)));
          if (d != Device::cpu()) continue;
          CHECK(mentions(why, "image 1 has"));
          CHECK(mentions(why, "Try u8 images, or x * std + mean"));
        }
      }
  // Of u8 images nothing can be outside but what a step fills in.
  const Tensor images = some_pictures(1, 5, 5);
  const auto filled = [&](double fill, const Tensor& x) {
    return message_of([&] {
      (void)Compose{RandomRotation{9, Interpolation::nearest, {fill}}, ColorJitter{0.1}}(x);
    });
  };
  CHECK(filled(255, images) == "");
  CHECK(mentions(filled(256, images),
                 "fills with 256, and ColorJitter(brightness=[0.9, 1.1]) "
                 "after it takes u8 images in [0, 255]"));
  CHECK(mentions(filled(-1, images), "fills with -1"));
  CHECK(filled(1, zeros({1, 3, 5, 5})) == "");
  CHECK(mentions(filled(128, zeros({1, 3, 5, 5})), "takes f32 images in [0, 1]"));
  CHECK(
      Compose{ColorJitter{0.1}, RandomRotation{9, Interpolation::nearest, {300}}}(images).shape() ==
      Shape{1, 3, 5, 5});
}

TEST_CASE("Compose: RandomErasing changes a rectangle of what is there without it", "[data]") {
  const Compose plain{data::ToTensor{}, data::Normalize{{0.5}, {0.25}}},
      erased{data::ToTensor{}, data::Normalize{{0.5}, {0.25}},
             data::RandomErasing{.p = 1, .value = {9, 8, 7}}};
  for (const Device d : kernel_devices()) {
    const Tensor images = some_pictures(8, 16, 20, 3, d);
    const std::vector<double> want = pixel_values(plain(images)),
                              got = pixel_values(erased(images));
    for (i64 n = 0; n < 8; ++n) {
      std::set<i64> rows, columns;
      i64 count = 0;
      for (i64 k = 0; k < 960; ++k) {
        const size_t at = size_t(n * 960 + k);
        if (got[at] == double(9 - k / 320))
          ++count, rows.insert(k / 20 % 16), columns.insert(k % 20);
        else
          CHECK(got[at] == want[at]);
      }
      CHECK(count == 3 * i64(rows.size()) * i64(columns.size()));
      CHECK(count > 0);
    }
  }
}

TEST_CASE("Compose: RandAugment does something else to each image", "[data]") {
  for (const Device d : kernel_devices()) {
    const Tensor one = some_pictures(1, 10, 10, 3, d);
    const Compose augment{data::RandAugment{.num_ops = 1, .magnitude = 15}};
    std::set<std::vector<double>> seen;
    int same = 0;
    const std::vector<double> before = pixel_values(one);
    for (i64 sample = 0; sample < 150; ++sample) {
      std::vector<double> after = pixel_values(augment(one, {.samples = {&sample, 1}}));
      double worst = 0;
      for (size_t i = 0; i < after.size(); ++i)
        worst = std::max(worst, std::abs(after[i] - before[i]));
      same += worst < 1e-3;
      seen.insert(std::move(after));
    }
    CHECK(seen.size() == 20);  // eight go both ways: 16, and four that do not
    // The identity, and autocontrast of an image that has all of the range but for a level or two.
    CHECK((same > 3 && same < 30));
  }
}

TEST_CASE("Compose: launches are as many as docs/data.md says", "[data]") {
  for (const Device d : kernel_devices()) {
    const Tensor images = some_pictures(3, 8, 8, 3, d);
    const auto launches = [&](const Compose& c) {
      (void)c(images);  // first uses try other variants too
      CountKernels count;
      const profiler::ObserverScope watch(count);
      (void)c(images, {.seed = 4});
      return count.kernels;
    };
    CHECK(launches({data::ToTensor{}, data::RandomErasing{}}) == 2);
    CHECK(launches({data::RandomRotation{9}, data::ToTensor{}}) == 2);
    CHECK(launches({data::RandomHorizontalFlip{}, data::RandomRotation{9}, data::ToTensor{}}) == 3);
    CHECK(launches({data::ColorJitter{0.1}, data::ToTensor{}}) == 3);
    CHECK(launches({data::RandAugment{}}) == 5);
  }
}

TEST_CASE("Compose: texts, orders and numbers of the new transforms", "[data]") {
  using namespace wt::data;
  CHECK(kEverything.text() ==
        "Compose(RandomCrop(12, padding=2), RandomHorizontalFlip(0.5), RandomRotation(30, "
        "bilinear, fill=[10, 20, 30]), ColorJitter(brightness=[0.6, 1.4], contrast=[0.6, 1.4], "
        "saturation=[0.6, 1.4], hue=[-0.1, 0.1]), RandomAffine(10, translate=[0.1, 0.2], "
        "scale=[0.8, 1.2], shear_x=5), RandomGrayscale(0.2), RandAugment(2, 9), ToTensor, "
        "Normalize(0.5, 0.25), Cutout(3), RandomErasing(0.5, random))");
  CHECK(Compose{RandomRotation{{-5, 10}}}.text() == "Compose(RandomRotation([-5, 10]))");
  const auto why = [](const std::vector<Transform>& list) {
    return message_of([&] { (void)Compose(list); });
  };
  CHECK(mentions(why({ToTensor{}, RandomRotation{3}}), "RandomRotation(3) comes after ToTensor"));
  CHECK(mentions(why({ColorJitter{0.1}, RandomCrop{3}}), "crops, sizes and flips first"));
  CHECK(mentions(why({RandomErasing{}, Cutout{3}}), "Cutout(3) comes after RandomErasing(0.5)"));
  CHECK(mentions(why({RandAugment{}, RandAugment{}}), "one of them"));
  CHECK(mentions(why({RandomRotation{-3}}), "degrees"));
  CHECK(mentions(why({RandomAffine{.degrees = 0, .translate = {2, 0}}}), "shares in [0, 1]"));
  CHECK(mentions(why({RandomAffine{.degrees = 0, .scale = {0, 1}}}), "scales must be above 0"));
  CHECK(mentions(why({RandomAffine{.degrees = 0, .shear_y = 95}}), "shears"));
  CHECK(mentions(why({RandomRotation{3, Interpolation::nearest, {}}}), "one number to fill with"));
  CHECK(mentions(why({RandomRotation{3, Interpolation::nearest, {NAN}}}), "not finite"));
  CHECK(mentions(why({ColorJitter{Factor(-0.5, 1)}}), "factors must be 0 or more"));
  CHECK(mentions(why({ColorJitter{0, 0, 0, 0.7}}), "hue must be in [-0.5, 0.5]"));
  CHECK(mentions(why({RandomGrayscale{2}}), "probability"));
  CHECK(mentions(why({RandAugment{.num_ops = 0}}), "1 to 16 operations"));
  CHECK(mentions(why({RandAugment{.magnitude = 31}}), "magnitude must be in"));
  CHECK(mentions(why({RandAugment{.num_magnitude_bins = 1}}), "2 or more"));
  CHECK(mentions(why({RandomErasing{.p = 3}}), "probability"));
  CHECK(mentions(why({RandomErasing{.scale = {0.5, 0.1}}}), "area"));
  CHECK(mentions(why({RandomErasing{.ratio = {0, 1}}}), "ratios"));
  const Tensor four = some_pictures(1, 5, 5, 4), three = some_pictures(1, 5, 5);
  CHECK(mentions(message_of([&] { (void)Compose{ColorJitter{0.1}}(four); }),
                 "1 or 3 channels, got 4"));
  CHECK(mentions(message_of([&] { (void)Compose{RandAugment{}}(four); }), "RandAugment(2, 9)"));
  CHECK(Compose{RandomRotation{9}}(four).shape() == Shape{1, 4, 5, 5});
  CHECK(mentions(message_of([&] {
                   (void)Compose{RandomRotation{9, Interpolation::nearest, {1, 2}}}(three);
                 }),
                 "fills with 2 numbers, the images have 3"));
  CHECK(mentions(message_of([&] {
                   (void)Compose{RandomErasing{.value = {1, 2}}}(three);
                 }),
                 "RandomErasing has 2 values"));
}

TEST_CASE("Compose: a captured one keeps its images", "[data][capture]") {
  for (const Device d : kernel_devices()) {
    if (d == Device::cpu()) continue;
    const Compose c{data::RandomCrop{6, 1}, data::RandomHorizontalFlip{}, data::ToTensor{}};
    const auto make = [&](const Tensor& images) { return c(images, {.epoch = 1, .seed = 3}); };
    CHECK(replayed_alone(d, make) == pixel_values(make(some_pictures(3, 8, 8, 3, d))));
  }
}
