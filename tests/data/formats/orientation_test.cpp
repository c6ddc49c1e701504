// How a camera was held: in every format that says it, in every form that files have.
#include <array>
#include <cstdlib>
#include <filesystem>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/data/image.h"
#include "warptape/data/image_folder.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/jpeg_file.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#if WARPTAPE_HAS_WEBP
#include <webp/encode.h>
#endif

using namespace wt;
using data::ImageFormat;

namespace {

// A whole number of `n` bytes.
std::string number(u64 v, size_t n, bool big) {
  std::string s;
  for (size_t k = 0; k < n; ++k) s += char(v >> 8 * (big ? n - 1 - k : k));
  return s;
}

struct Exif {
  int orientation = 1;
  bool big = false;
  u16 type = 3;  // 1 BYTE, 3 SHORT, 4 LONG
  u32 count = 1;
};
// A TIFF header and a directory of two entries, the second one of which is the orientation. Further
// values are 9.
std::string tiff_of(const Exif& e) {
  const size_t each = e.type == 1 ? 1 : e.type == 3 ? 2 : 4;
  std::string values = number(u64(e.orientation), each, e.big);
  for (u32 k = 1; k < e.count; ++k) values += number(9, each, e.big);
  const std::string behind = values.size() > 4 ? values : "";
  values.resize(4, '\0');
  if (!behind.empty()) values = number(8 + 2 + 24 + 4, 4, e.big);
  return (e.big ? "MM" : "II") + number(42, 2, e.big) + number(8, 4, e.big) + number(2, 2, e.big) +
         number(0x010f, 2, e.big) + number(2, 2, e.big) + number(2, 4, e.big) +
         std::string("x\0\0\0", 4) + number(0x0112, 2, e.big) + number(e.type, 2, e.big) +
         number(e.count, 4, e.big) + values + number(0, 4, e.big) + behind;
}

// h = 2 and w = 4 pixels: 10 and 80 above, 240 and 160 below, each twice (for JPEG eight times).
std::vector<u8> quarters(int scale) {
  std::vector<u8> pixels;
  for (int y = 0; y < 2 * scale; ++y)
    for (int x = 0; x < 4 * scale; ++x)
      pixels.push_back(u8(y < scale ? (x < 2 * scale ? 10 : 80) : (x < 2 * scale ? 240 : 160)));
  return pixels;
}

[[maybe_unused]] std::string crc_of(std::string_view data) {
  u32 crc = ~0u;
  for (const char c : data) {
    crc ^= u8(c);
    for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return number(~crc, 4, true);
}
std::string png_chunk(const std::string& type, const std::string& data) {
  return number(data.size(), 4, true) + type + data + crc_of(type + data);
}
std::string png(const std::string& tiff, bool behind_pixels) {
  std::string file = data::png_of(tensor(quarters(1)).to(DType::u8).view({2, 4, 1}));
  constexpr size_t kEnd = 12, kHeader = 8 + 25;
  return file.insert(behind_pixels ? file.size() - kEnd : kHeader, png_chunk("eXIf", tiff));
}

#if WARPTAPE_HAS_JPEG
std::string jpeg(const std::string& tiff) {
  const std::vector<u8> file = jpeg_file(quarters(8), 32, 16, 1);
  const std::string segment = std::string("Exif\0\0", 6) + tiff;
  return std::string(file.begin(), file.begin() + 2) + "\xff\xe1" +
         number(segment.size() + 2, 2, true) + segment + std::string(file.begin() + 2, file.end());
}
#endif

#if WARPTAPE_HAS_WEBP
std::string webp_chunk(const std::string& type, const std::string& data) {
  return type + number(data.size(), 4, false) + data + std::string(data.size() % 2, '\0');
}
std::string webp(const std::string& exif, int flags = 8) {
  std::vector<u8> rgb;
  for (const u8 v : quarters(1)) rgb.insert(rgb.end(), 3, v);
  u8* out = nullptr;
  const size_t n = WebPEncodeLosslessRGB(rgb.data(), 4, 2, 12, &out);
  const std::string simple(reinterpret_cast<const char*>(out), n);
  WebPFree(out);
  const std::string all =
      "WEBP" +
      webp_chunk("VP8X", number(u64(flags), 4, false) + number(3, 3, false) + number(1, 3, false)) +
      simple.substr(12) + webp_chunk("EXIF", exif);
  return "RIFF" + number(all.size(), 4, false) + all;
}
#endif

std::span<const u8> bytes_in(const std::string& s) {
  return {reinterpret_cast<const u8*>(s.data()), s.size()};
}

// What is to be seen at the upper left, upper right, lower right, lower left.
constexpr int a = 10, b = 80, c = 160, d = 240;
constexpr int kSeen[9][4] = {{},           {a, b, c, d}, {b, a, d, c}, {c, d, a, b}, {d, c, b, a},
                             {a, d, c, b}, {d, a, b, c}, {c, b, a, d}, {b, c, d, a}};

void check_turned(const std::string& file, ImageFormat format, int orientation) {
  CAPTURE(data::image_format_name(format), orientation);
  const data::ImageInfo info = data::image_info(bytes_in(file), "held");
  CHECK(info.format == format);
  CHECK(info.orientation == orientation);
  const Tensor t = data::decode_image(bytes_in(file), "held", data::ImageOptions{});
  const i64 h = t.size(0), w = t.size(1), channels = t.size(2);
  CHECK((h > w) == (orientation >= 5));
  CHECK(Shape{info.height, info.width, info.channels} == t.shape());
  const std::vector<u8> v = t.to_vector<u8>();
  const auto at = [&](i64 y, i64 x) { return int(v[size_t((y * w + x) * channels)]); };
  const int got[4] = {at(0, 0), at(0, w - 1), at(h - 1, w - 1), at(h - 1, 0)};
  for (int k = 0; k < 4; ++k) CHECK(std::abs(got[k] - kSeen[orientation][k]) < 6);
  const data::ImageOptions stored{.apply_orientation = false};
  CHECK(data::decode_image(bytes_in(file), "held", stored).size(1) == 2 * std::min(h, w));
  CHECK(data::image_info(bytes_in(file), "held", stored).width == 2 * std::min(h, w));
}

// Of every format that this build reads.
void check_all(const std::string& tiff, int orientation) {
#if WARPTAPE_HAS_SPNG
  for (const bool behind : {false, true})
    check_turned(png(tiff, behind), ImageFormat::png, orientation);
#endif
#if WARPTAPE_HAS_JPEG
  check_turned(jpeg(tiff), ImageFormat::jpeg, orientation);
#endif
#if WARPTAPE_HAS_WEBP
  check_turned(webp(tiff), ImageFormat::webp, orientation);
  check_turned(webp(std::string("Exif\0\0", 6) + tiff), ImageFormat::webp, orientation);
  check_turned(webp(tiff, 0), ImageFormat::webp, 1);  // its flags say that there is none
#endif
  (void)tiff, (void)orientation;
}

}  // namespace

TEST_CASE("orientation: PNG, WebP and JPEG are turned as the camera was held", "[data]") {
  for (const bool big : {false, true})
    for (int o = 1; o <= 8; ++o) check_all(tiff_of({o, big}), o);
}

TEST_CASE("orientation: whole numbers of every size and count", "[data]") {
  for (const bool big : {false, true})
    for (const u16 type : {u16(1), u16(3), u16(4)})
      for (const u32 count : {1u, 2u, 3u, 5u}) {
        CAPTURE(big, type, count);
        check_all(tiff_of({6, big, type, count}), 6);
      }
}

TEST_CASE("orientation: what is none leaves an image as it is", "[data]") {
  for (const int o : {0, 9, 77}) check_all(tiff_of({o, true}), 1);
  check_all(tiff_of({6, true, 5}), 1);  // RATIONAL
  check_all(tiff_of({6, true, 3, 0}), 1);
  const std::string whole = tiff_of({6, true, 4, 3});
  for (size_t n = 8; n + 8 < whole.size(); ++n) {
#if WARPTAPE_HAS_WEBP
    check_turned(webp(whole.substr(0, n)), ImageFormat::webp, 1);
#endif
#if WARPTAPE_HAS_JPEG
    check_turned(jpeg(whole.substr(0, n)), ImageFormat::jpeg, 1);
#endif
  }
}

TEST_CASE("orientation: image_info finds it behind more pixels than it reads", "[data]") {
#if WARPTAPE_HAS_SPNG
  const TempDir dir;
  // Noise, which does not pack: 300 x 400 bytes.
  std::vector<u8> noise;
  for (u32 k = 0, v = 1; k < 300 * 400; ++k)
    noise.push_back(u8((v = v * 1664525 + 1013904223) >> 24));
  std::string file = data::png_of(tensor(noise).to(DType::u8).view({300, 400, 1}));
  REQUIRE(file.size() > (size_t{64} << 10) + 100);
  file.insert(file.size() - 12, png_chunk("eXIf", tiff_of({8})));
  spit(dir / "f.png", file);
  const data::ImageInfo info = data::image_info(dir / "f.png");
  CHECK(info == data::ImageInfo{ImageFormat::png, 400, 300, 1, 8});
  CHECK(data::read_image(dir / "f.png").shape() == Shape{400, 300, 1});
  // One that is cut within its pixels has told its size before.
  spit(dir / "cut.png", file.substr(0, 100'000));
  CHECK(data::image_info(dir / "cut.png") == data::ImageInfo{ImageFormat::png, 300, 400, 1, 1});
#else
  SKIP_TEST("this build has no libspng");
#endif
}

TEST_CASE("orientation: a folder of images turns them, or not", "[data]") {
#if WARPTAPE_HAS_SPNG
  const TempDir dir;
  std::filesystem::create_directory(dir / "zoo");
  spit(dir / "zoo/1.png", png(tiff_of({6}), true));
  const std::array<i64, 1> first{0};
  CHECK(data::ImageFolder(dir.path, {.channels = 1}).batch(first).x.shape() == Shape{1, 1, 4, 2});
  CHECK(data::ImageFolder(dir.path, {.channels = 1, .apply_orientation = false})
            .batch(first)
            .x.shape() == Shape{1, 1, 2, 4});
#else
  SKIP_TEST("this build has no libspng");
#endif
}

#if WARPTAPE_HAS_WEBP
TEST_CASE("orientation: image_info of a WebP whose flags and frame say otherwise of alpha",
          "[data]") {
  std::vector<u8> rgba;
  for (const u8 v : quarters(1)) rgba.insert(rgba.end(), {v, v, v, 128});
  u8* out = nullptr;
  const size_t n = WebPEncodeLosslessRGBA(rgba.data(), 4, 2, 16, &out);
  const std::string simple(reinterpret_cast<const char*>(out), n);
  WebPFree(out);
  for (const int flags : {0, 0x10}) {
    const std::string all = "WEBP" +
                            webp_chunk("VP8X", number(u64(flags), 4, false) + number(3, 3, false) +
                                                   number(1, 3, false)) +
                            simple.substr(12);
    const std::string file = "RIFF" + number(all.size(), 4, false) + all;
    CHECK(data::decode_image(bytes_in(file), "x", data::ImageOptions{}).shape() == Shape{2, 4, 4});
    CHECK(data::image_info(bytes_in(file), "x").channels == 4);
  }
}
#endif

TEST_CASE("orientation: whatever is done to a file, image_info and read_image agree", "[data]") {
  std::vector<std::string> golden;
#if WARPTAPE_HAS_WEBP
  golden.push_back(webp(tiff_of({6})));
  golden.push_back(webp(tiff_of({8, true, 4, 3})));
#endif
#if WARPTAPE_HAS_JPEG
  golden.push_back(jpeg(tiff_of({7, true, 4})));
#endif
  if (golden.empty()) SKIP_TEST("this build has neither libwebp nor libjpeg-turbo");
  FuzzPlan plan(2'000, 37);
  const std::vector<std::string_view> words{
      "EXIF",     "VP8X",     "Exif", "II*",     "MM", std::string_view("\0\0\0\x08", 4),
      "\x12\x01", "\x01\x12", "\x03", "\xff\xff"};
  const long long accepted = taken_of(plan, golden, words, wt_test::takes_image);
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases);
}
