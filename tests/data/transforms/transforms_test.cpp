// Compose: torchvision's transforms as one launch.
#include "warptape/data/transforms.h"

#include <cmath>

#include "warptape/core/factories.h"
#include "warptape/tests/data/pictures.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt_test;
using data::Compose;

namespace {

const std::vector<double> kMean{0.5, 0.25, 0.125}, kStd{0.5, 0.25, 0.2};

}  // namespace

TEST_CASE("Compose: ToTensor and Normalize, as PyTorch's formulas", "[data]") {
  for (const Device d : kernel_devices()) {
    const Tensor images = some_pictures(3, 4, 5, 3, d);
    const std::vector<double> raw = pixel_values(images),
                              unit = pixel_values(Compose{data::ToTensor{}}(images)),
                              normal = pixel_values(
                                  Compose{data::ToTensor{}, data::Normalize{kMean, kStd}}(images)),
                              one = pixel_values(
                                  Compose{data::ToTensor{}, data::Normalize{{0.5}, {0.1}}}(images));
    REQUIRE(unit.size() == raw.size());
    for (size_t i = 0; i < raw.size(); ++i) {
      const size_t c = i / 20 % 3;
      CHECK(std::abs(unit[i] - raw[i] / 255) < 1e-7);
      CHECK(std::abs(normal[i] - (raw[i] / 255 - kMean[c]) / kStd[c]) < 2e-6);
      CHECK(std::abs(one[i] - (raw[i] / 255 - 0.5) / 0.1) < 2e-6);
    }
    CHECK(pixel_values(Compose{}(images)) == raw);
  }
}

TEST_CASE("Compose: a sample becomes the same in every batch and on every device", "[data]") {
  const Compose augment{data::RandomResizedCrop{8}, data::RandomHorizontalFlip{}, data::ToTensor{},
                        data::Normalize{kMean, kStd}, data::Cutout{3}};
  const Tensor images = some_pictures(6, 12, 10);
  const std::vector<i64> rows{40, 3, 17, 8, 5, 99};
  const Tensor all = augment(images, {.samples = rows, .epoch = 2, .seed = 7});
  CHECK(all.shape() == Shape{6, 3, 8, 8});
  for (i64 i = 0; i < 6; ++i) {  // one by one, as a worker decodes them
    const i64 row = rows[size_t(i)];
    const Tensor one = augment(images[i], {.samples = {&row, 1}, .epoch = 2, .seed = 7});
    CHECK(one.shape() == Shape{3, 8, 8});
    CHECK(pixel_values(one) == pixel_values(all[i]));
  }
  CHECK(pixel_values(augment(images, {.samples = rows, .epoch = 3, .seed = 7})) !=
        pixel_values(all));
  CHECK(pixel_values(augment(images, {.samples = rows, .epoch = 2, .seed = 8})) !=
        pixel_values(all));
  for (const Device d : kernel_devices()) {
    const Tensor there = augment(images.to(d), {.samples = rows, .epoch = 2, .seed = 7});
    CHECK(there.device() == d);
    const std::vector<double> got = pixel_values(there), want = pixel_values(all);
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
    CHECK(worst < 1e-4);  // 1e-5 of [0, 255] over a deviation of 0.2
  }
}

TEST_CASE("trap T23: augmentation of images on a device is one launch there", "[data][traps]") {
  for (const Device d : kernel_devices()) {
    const Tensor images = some_pictures(5, 9, 9, 3, d);
    const std::vector<double> before = pixel_values(images);
    const Compose augment{data::RandomCrop{8, 2}, data::RandomHorizontalFlip{}, data::ToTensor{},
                          data::Normalize{kMean, kStd}};
    (void)augment(images);  // first uses try other variants too
    CountKernels count;
    const Tensor out = [&] {
      const profiler::ObserverScope watch(count);
      return augment(images, {.seed = 4});
    }();
    CHECK(count.kernels == 1);
    CHECK(out.device() == d);
    CHECK(pixel_values(images) == before);
  }
}

TEST_CASE("Compose: sizes, layouts and dtypes", "[data]") {
  const Tensor images = some_pictures(2, 7, 9);
  CHECK(Compose{data::CenterCrop{{3, 5}}}(images).shape() == Shape{2, 3, 3, 5});
  CHECK(Compose{data::Resize{{14, 3}}}(images).shape() == Shape{2, 3, 14, 3});
  CHECK(Compose{data::RandomHorizontalFlip{}}(images).shape() == Shape{2, 3, 7, 9});
  CHECK(Compose{data::RandomCrop{{9, 11}, 1}}(images).shape() == Shape{2, 3, 9, 11});
  const Compose c{data::RandomCrop{4}, data::ToTensor{}};
  const Tensor last = c(images, {.seed = 1, .channels_last = true});
  CHECK(last.strides()[1] == 1);
  CHECK(pixel_values(last) == pixel_values(c(images, {.seed = 1})));
  const Tensor hwc = images.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  CHECK(pixel_values(c(hwc, {.seed = 1})) == pixel_values(last));
  CHECK(c(images, {.dtype = DType::f16}).dtype() == DType::f16);
  CHECK(c(some_pictures(0, 7, 9)).shape() == Shape{0, 3, 4, 4});
  CHECK(c.text() == "Compose(RandomCrop(4), ToTensor)");
}

TEST_CASE("Compose: orders and numbers that make no sense are refused", "[data]") {
  using namespace wt::data;
  CHECK(mentions(message_of([&] {
                   (void)Compose({ToTensor{}, RandomCrop{4}});
                 }),
                 "RandomCrop(4) comes after ToTensor"));
  CHECK(mentions(message_of([&] {
                   (void)Compose({ToTensor{}, Cutout{2}, Normalize{{0}, {1}}});
                 }),
                 "comes after Cutout"));
  CHECK(mentions(message_of([&] { (void)Compose({ToTensor{}, ToTensor{}}); }), "one of them"));
  CHECK(mentions(message_of([&] {
                   (void)Compose({RandomCrop{4}, CenterCrop{3}});
                 }),
                 "says the size"));
  CHECK(mentions(message_of([&] {
                   (void)Compose({Normalize{{0.5}, {0.5}}});
                 }),
                 "ToTensor before it"));
  CHECK(mentions(message_of([&] {
                   (void)Compose({ToTensor{}, Normalize{{0.5}, {0}}});
                 }),
                 "not positive"));
  CHECK(mentions(message_of([&] {
                   (void)Compose({ToTensor{}, Normalize{{1, 2}, {1, 2, 3}}});
                 }),
                 "2 and 3"));
  CHECK(mentions(message_of([&] { (void)Compose({RandomHorizontalFlip{2}}); }), "probability"));
  CHECK(mentions(message_of([&] { (void)Compose({RandomResizedCrop{4, {0.5, 0.1}}}); }), "area"));
  CHECK(mentions(message_of([&] { (void)Compose({CenterCrop{0}}); }), "no pixels"));
  const Tensor images = some_pictures(2, 7, 9);
  CHECK(mentions(message_of([&] { (void)Compose({RandomCrop{8}})(images); }), "7 x 9"));
  CHECK(mentions(message_of([&] {
                   (void)Compose({RandomCrop{8, 7, PadMode::reflect}})(images);
                 }),
                 "reflected"));
  CHECK(mentions(message_of([&] { (void)Compose({ToTensor{}})(images.to(DType::f32)); }),
                 "u8 images"));
  CHECK(mentions(message_of([&] {
                   (void)Compose({ToTensor{}, Normalize{{1, 2}, {1, 2}}})(images);
                 }),
                 "3 channels"));
  CHECK(mentions(message_of([&] { (void)Compose{}(some_pictures(1, 3, 3, 5)); }), "permute"));
  CHECK(mentions(message_of([&] { (void)Compose{}(images[0][0]); }), "[C, H, W]"));
  const std::vector<i64> one{1};
  CHECK(mentions(message_of([&] { (void)Compose{}(images, {.samples = one}); }),
                 "1 sample numbers for 2"));
}
