// JPEG and WebP files that are written.
#include <cmath>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/core/philox.h"
#include "warptape/data/image.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace wt::data;

namespace {

// Smooth colours with some noise, u8 [h, w, c].
Tensor picture(i64 h, i64 w, i64 c, int noise) {
  std::vector<u8> v;
  for (i64 y = 0; y < h; ++y)
    for (i64 x = 0; x < w; ++x)
      for (i64 k = 0; k < c; ++k) {
        const i64 smooth = k == 0 ? 200 * x / w : k == 1 ? 200 * y / h : 90;
        v.push_back(u8(smooth + i64(mix64(v.size()) % u64(noise))));
      }
  return tensor(v).view({h, w, c});
}

[[maybe_unused]] Tensor decoded(const std::string& file) {
  return decode_image({reinterpret_cast<const u8*>(file.data()), file.size()}, "written");
}
[[maybe_unused]] ImageInfo info_of(const std::string& file) {
  return image_info({reinterpret_cast<const u8*>(file.data()), file.size()}, "written");
}

[[maybe_unused]] double mean_square(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<u8>(), y = b.to_vector<u8>();
  REQUIRE(x.size() == y.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::pow(double(x[i]) - double(y[i]), 2);
  return sum / double(x.size());
}

// Wrong pixels and qualities, before anything is written.
template <class Options, class Write>
void check_refusals(const std::string& name, int least, Write write) {
  const TempDir dir;
  const std::string path = dir / "a";
  spit(path, "old");
  const auto refusal = [&](const Tensor& image, int quality) {
    return message_of([&] { write(path, image, Options{.quality = quality}); });
  };
  const Tensor good = picture(2, 3, 3, 1);
  CHECK(mentions(refusal(good, 101), "UsageError: [" + name + "] a quality from " +
                                         std::to_string(least) + " to 100, got 101"));
  CHECK(mentions(refusal(good, least - 1), "got " + std::to_string(least - 1)));
  CHECK(mentions(refusal(good.to(DType::f32), 75), "DtypeError: [" + name + "] expected u8"));
  CHECK(mentions(refusal(good.view({6, 3}), 75), "ShapeError: [" + name + "] expected pixels"));
  CHECK(mentions(refusal(empty({0, 3, 3}, {.dtype = DType::u8}), 75), "expected pixels [H, W, C]"));
  CHECK(mentions(refusal(zeros({1, 70'000, 3}, {.dtype = DType::u8}), 75), "sides of at most"));
  CHECK(slurp(path) == "old");
}

}  // namespace

TEST_CASE("jpeg_of: what it writes is read again, closer and larger with more quality") {
  check_refusals<JpegOptions>("jpeg_of", 1, write_jpeg);
  CHECK(mentions(message_of([] { (void)jpeg_of(picture(2, 2, 4, 1)); }), "JPEG has no alpha"));
  CHECK(mentions(message_of([] { (void)jpeg_of(picture(2, 2, 2, 1)); }), "narrow(2, 0, 1)"));
#if WARPTAPE_HAS_JPEG
  for (const i64 c : {1, 3}) {
    const Tensor image = picture(300, 401, c, 40);
    double error = 1e9;
    size_t bytes = 0;
    for (const int quality : {1, 30, 75, 100}) {
      CAPTURE(c, quality);
      const std::string file = jpeg_of(image, {.quality = quality});
      CHECK(info_of(file) ==
            ImageInfo{.format = ImageFormat::jpeg, .height = 300, .width = 401, .channels = c});
      const double now = mean_square(decoded(file), image);
      CHECK(now < error);
      CHECK(file.size() > bytes);
      error = now, bytes = file.size();
    }
    CHECK(bytes > (1 << 16));  // more than is handed on at once
    // Another order of the same numbers.
    const std::string plain = jpeg_of(image), progressive = jpeg_of(image, {.progressive = true});
    CHECK(progressive != plain);
    CHECK(decoded(progressive).to_vector<u8>() == decoded(plain).to_vector<u8>());
    CHECK(jpeg_of(image, {.quality = 75}) == plain);
    if (c == 1) continue;
    CHECK(mean_square(decoded(jpeg_of(image, {.subsample = false})), image) <
          mean_square(decoded(plain), image));
    CHECK(jpeg_of(image.permute({1, 0, 2}).contiguous().permute({1, 0, 2})) == plain);
  }
  const TempDir dir;
  write_jpeg(dir / "a.jpg", picture(5, 7, 3, 1), {.quality = 90});
  CHECK(read_image(dir / "a.jpg").shape() == Shape{5, 7, 3});
  CHECK_THROWS_AS(write_jpeg(dir / "none/a.jpg", picture(5, 7, 3, 1)), CheckpointError);
#else
  CHECK(mentions(message_of([] { (void)jpeg_of(picture(2, 2, 3, 1)); }),
                 "NotAvailable: [jpeg_of] this build has no libjpeg-turbo"));
#endif
}

TEST_CASE("webp_of: lossless keeps every level, and lossy comes closer with more quality") {
  check_refusals<WebpOptions>("webp_of", 0, write_webp);
#if WARPTAPE_HAS_WEBP
  for (const i64 c : {1, 2, 3, 4}) {
    CAPTURE(c);
    const Tensor image = picture(60, 41, c, 40);  // some of it transparent
    const std::string file = webp_of(image, {.lossless = true});
    const Tensor back = decoded(file);
    CHECK(back.shape() == Shape{60, 41, c % 2 ? 3 : 4});
    const auto got = back.to_vector<u8>(), want = image.to_vector<u8>();
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t pixel = i / size_t(back.size(2)), k = i % size_t(back.size(2));
      const size_t from = c > 2 ? k : k == 3 ? 1 : 0;
      REQUIRE(got[i] == want[pixel * size_t(c) + from]);
    }
  }
  const Tensor image = picture(200, 150, 3, 40);
  double error = 1e9;
  size_t bytes = 0;
  for (const int quality : {0, 40, 80, 100}) {
    const std::string file = webp_of(image, {.quality = quality});
    CHECK(info_of(file) ==
          ImageInfo{.format = ImageFormat::webp, .height = 200, .width = 150, .channels = 3});
    const double now = mean_square(decoded(file), image);
    CHECK(now < error);
    CHECK(file.size() > bytes);
    error = now, bytes = file.size();
  }
  const TempDir dir;
  write_webp(dir / "a.webp", picture(5, 7, 4, 1));
  CHECK(read_image(dir / "a.webp").shape() == Shape{5, 7, 4});
  CHECK_THROWS_AS(write_webp(dir / "none/a.webp", picture(5, 7, 3, 1)), CheckpointError);
#else
  CHECK(mentions(message_of([] { (void)webp_of(picture(2, 2, 3, 1)); }),
                 "NotAvailable: [webp_of] this build has no libwebp"));
#endif
}
