// JPEG and WebP: real files, every kind that an encoder writes, and damaged ones.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/data/image.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/jpeg_file.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"
#if WARPTAPE_HAS_WEBP
#include <webp/encode.h>
#endif

using namespace wt;
using data::read_image;

namespace {

// Some are for one of the two libraries alone.
[[maybe_unused]] std::vector<u8> bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
[[maybe_unused]] std::string text_of(std::span<const u8> b) { return {b.begin(), b.end()}; }

[[maybe_unused]] std::string refusal(std::span<const u8> bytes, const ParseLimits& limits = {}) {
  return message_of([&] { (void)data::decode_image(bytes, "x.img", limits); });
}

// Smooth colours, which a codec keeps to a few levels.
[[maybe_unused]] std::vector<u8> gradient(int w, int h, int channels) {
  std::vector<u8> v;
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x)
      for (int c = 0; c < channels; ++c)
        v.push_back(u8(c == 3 ? 128 + x : c == 0 ? 255 * x / w : c == 1 ? 255 * y / h : 90));
  return v;
}

[[maybe_unused]] double mean_difference(const Tensor& image, const std::vector<u8>& want) {
  const std::vector<u8> got = image.to_vector<u8>();
  REQUIRE(got.size() == want.size());
  double sum = 0;
  for (size_t i = 0; i < got.size(); ++i) sum += std::abs(int(got[i]) - int(want[i]));
  return sum / double(got.size());
}

#if WARPTAPE_HAS_JPEG
// With a directory of one entry before it that says how the camera was held.
std::vector<u8> held(std::vector<u8> bytes, int orientation, bool big) {
  std::string tiff = big ? std::string("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19)
                         : std::string("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 18);
  tiff += char(orientation);
  tiff += big ? std::string("\0\0", 2) : std::string("\0\0\0", 3);
  tiff += std::string(4, '\0');
  std::string segment = std::string("Exif\0\0", 6) + tiff;
  segment = std::string("\xff\xe1", 2) + char(0) + char(segment.size() + 2) + segment;
  bytes.insert(bytes.begin() + 2, segment.begin(), segment.end());
  return bytes;
}
#define NEEDS_JPEG() (void)0
#else
#define NEEDS_JPEG() SKIP_TEST("this build has no libjpeg-turbo")
#endif

}  // namespace

#if WARPTAPE_HAS_JPEG
TEST_CASE("jpeg: colours, grey, inks and progressive files", "[data]") {
  const std::vector<u8> rgb = gradient(37, 21, 3), grey = gradient(37, 21, 1);
  for (const int sampling : {1, 2, 4})
    for (const bool progressive : {false, true}) {
      const Tensor t = data::decode_image(
          jpeg_file(rgb, 37, 21, 3, {.sampling = sampling, .progressive = progressive}), "colours");
      CHECK(t.shape() == Shape{21, 37, 3});
      CHECK(mean_difference(t, rgb) < 3);
    }
  const Tensor g = data::decode_image(jpeg_file(grey, 37, 21, 1), "grey");
  CHECK(g.shape() == Shape{21, 37, 1});
  CHECK(mean_difference(g, grey) < 2);
  // With Adobe's marker, which this encoder writes: a stored value is light, not ink.
  const std::vector<u8> inks = gradient(16, 16, 4);
  std::vector<u8> light;
  for (size_t i = 0; i < inks.size(); i += 4)
    for (size_t c = 0; c < 3; ++c) light.push_back(u8((inks[i + c] * inks[i + 3] + 127) / 255));
  const std::vector<u8> file = jpeg_file(inks, 16, 16, 4);
  const Tensor t = data::decode_image(file, "inks");
  CHECK(t.shape() == Shape{16, 16, 3});
  CHECK(mean_difference(t, light) < 3);
}

TEST_CASE("jpeg: an image is turned as the camera was held", "[data]") {
  // What is in the corner of the stored image, clockwise from the upper left: a, b, c, d.
  const int w = 32, h = 16;
  std::vector<u8> pixels;
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x)
      pixels.push_back(u8(y < h / 2 ? (x < w / 2 ? 10 : 80) : (x < w / 2 ? 240 : 160)));
  const std::vector<u8> stored = jpeg_file(pixels, w, h, 1);
  const int a = 10, b = 80, c = 160, d = 240;
  // Upper left, upper right, lower right, lower left, as it is to be seen.
  const int seen[9][4] = {{},           {a, b, c, d}, {b, a, d, c}, {c, d, a, b}, {d, c, b, a},
                          {a, d, c, b}, {d, a, b, c}, {c, b, a, d}, {b, c, d, a}};
  for (const bool big : {false, true})
    for (int o = 1; o <= 8; ++o) {
      CAPTURE(big, o);
      const Tensor t = data::decode_image(held(stored, o, big), "held");
      const i64 th = t.size(0), tw = t.size(1);
      CHECK(th == (o < 5 ? h : w));
      const std::vector<u8> v = t.to_vector<u8>();
      const int got[4] = {v[0], v[size_t(tw - 1)], v.back(), v[size_t((th - 1) * tw)]};
      for (int k = 0; k < 4; ++k) CHECK(std::abs(got[k] - seen[o][k]) < 6);
    }
  for (const int o : {0, 9, 77})  // no orientation
    CHECK(data::decode_image(held(stored, o, true), "held").size(0) == h);
}

TEST_CASE("jpeg: files that were cut or changed are refused, bombs too", "[data]") {
  const std::vector<u8> rgb = gradient(24, 16, 3);
  for (const bool progressive : {false, true}) {
    const std::vector<u8> whole =
        jpeg_file(rgb, 24, 16, 3, {.sampling = 4, .progressive = progressive});
    for (size_t n = 3; n + 2 < whole.size(); ++n) {
      CAPTURE(n);
      REQUIRE_FALSE(refusal({whole.data(), n}).empty());
    }
    long long read = 0;
    for (size_t bit = 24; bit < 8 * std::min<size_t>(whole.size(), 400); ++bit) {
      std::vector<u8> flipped = whole;
      flipped[bit / 8] ^= u8(1 << bit % 8);
      read += refusal(flipped).empty();
    }
    CHECK(read > 0);  // quantisation and Huffman tables of other files are right ones
  }
  const std::vector<u8> small = jpeg_file(rgb, 24, 16, 3);
  CHECK(mentions(refusal({small.data(), small.size() - 40}), "ends early (truncated download?)"));
  CHECK(mentions(refusal(small, {.max_bytes = 1000}), "the limit is 1000"));
  // The size stands behind the start of the frame: length, precision, height, width.
  std::vector<u8> bomb = small;
  for (size_t i = 2; i + 9 < bomb.size(); ++i)
    if (bomb[i] == 0xff && bomb[i + 1] == 0xc0) {
      for (size_t k = 5; k < 9; ++k) bomb[i + k] = 0xfe;
      break;
    }
  CHECK(mentions(refusal(bomb), "65278 x 65278 pixels, the limit is 64000000"));
}

// Where marker `m` (of a segment, or the end) begins; the last one.
static size_t marker_at(const std::vector<u8>& bytes, u8 m) {
  for (size_t i = bytes.size() - 2; i > 1; --i)
    if (bytes[i] == 0xff && bytes[i + 1] == m) return i;
  FAIL("no such marker");
  return 0;
}

TEST_CASE("jpeg: warnings that leave every pixel as it is pass, those of damage do not", "[data]") {
  const std::vector<u8> rgb = gradient(24, 16, 3), whole = jpeg_file(rgb, 24, 16, 3);
  const std::vector<u8> want = data::decode_image(whole, "whole").to_vector<u8>();
  const auto with = [&](size_t at, const std::vector<u8>& more) {
    std::vector<u8> b = whole;
    b.insert(b.begin() + i64(at), more.begin(), more.end());
    return b;
  };
  const auto same = [&](const std::vector<u8>& bytes) {
    CHECK(data::image_info(bytes, "x") == data::image_info(whole, "whole"));
    CHECK(data::decode_image(bytes, "x").to_vector<u8>() == want);
  };
  // Bytes before a marker: of tables, of the frame, of the end.
  for (const u8 m : {u8(0xdb), u8(0xc0), u8(0xc4), u8(0xd9)}) {
    CAPTURE(int(m));
    same(with(marker_at(whole, m), {0, 0, 0}));
  }
  // The version of JFIF behind "JFIF\0": 9.1.
  std::vector<u8> b = whole;
  b[marker_at(whole, 0xe0) + 9] = 9;
  same(b);
  // Adobe's marker with a colour transform that there is not: taken for YCbCr, which it is.
  same(with(2, {0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 7}));
  // A scan's parameters, which sequential files have no use for (Se = 63): 0.
  b = whole;
  const size_t scan = marker_at(whole, 0xda);
  REQUIRE(b[scan + 12] == 63);
  b[scan + 12] = 0;
  same(b);
  // A harmless warning hides no other one.
  b = with(marker_at(whole, 0xdb), {0, 0, 0});
  b.resize(b.size() - 40);
  CHECK(mentions(refusal(b), "ends early (truncated download?)"));
  // A marker in the middle of the scan: the rest of it is missing.
  b = with(whole.size() - 60, {0xff, 0xd9});
  CHECK_FALSE(refusal(b).empty());
  // A code of the scan that no table has.
  long long refused = 0;
  for (size_t i = scan + 14; i + 2 < whole.size(); ++i) {
    b = whole;
    b[i] = 0xfe;
    refused += !refusal(b).empty();
  }
  CHECK(refused > 10);
  // A restart marker that is out of order.
  CHECK_FALSE(refusal(with(whole.size() - 60, {0xff, 0xd3})).empty());
}

TEST_CASE("jpeg: scans without end are refused", "[data]") {
  const std::vector<u8> grey = gradient(16, 16, 1);
  const auto scans = [&](int n) { return jpeg_file(grey, 16, 16, 1, {.repeated_scans = n}); };
  CHECK(refusal(scans(500)).empty());
  CHECK(mentions(refusal(scans(501)), "the JPEG file has more than 500 scans"));
  CHECK(mentions(refusal(scans(690)), "the JPEG file has more than 500 scans"));
  // The same scan again and again, which no encoder writes.
  std::vector<u8> bomb = jpeg_file(grey, 16, 16, 1);
  const size_t scan = marker_at(bomb, 0xda), end = marker_at(bomb, 0xd9);
  const std::vector<u8> one(bomb.begin() + i64(scan), bomb.begin() + i64(end));
  for (int i = 0; i < 2000; ++i) bomb.insert(bomb.begin() + i64(end), one.begin(), one.end());
  bomb[marker_at(bomb, 0xc0) + 1] = 0xc2;  // progressive
  CHECK_FALSE(refusal(bomb).empty());
}

TEST_CASE("jpeg: at 1/2, 1/4 and 1/8 of its size on request", "[data]") {
  const std::vector<u8> rgb = gradient(161, 80, 3), file = jpeg_file(rgb, 161, 80, 3);
  const auto size = [&](i64 height, i64 width, int orientation = 1, bool turn = true) {
    const Tensor t =
        data::decode_image(orientation == 1 ? file : held(file, orientation, false), "x",
                           {.apply_orientation = turn, .fast_height = height, .fast_width = width});
    return t.shape();
  };
  CHECK(size(0, 0) == Shape{80, 161, 3});
  CHECK(size(10, 21) == Shape{10, 21, 3});
  CHECK(size(11, 21) == Shape{20, 41, 3});
  CHECK(size(10, 22) == Shape{20, 41, 3});
  CHECK(size(40, 81) == Shape{40, 81, 3});
  CHECK(size(41, 1) == Shape{80, 161, 3});
  CHECK(size(500, 500) == Shape{80, 161, 3});
  CHECK(size(21, 10, 6) == Shape{21, 10, 3});
  CHECK(size(10, 21, 6) == Shape{81, 40, 3});
  CHECK(size(10, 21, 6, false) == Shape{10, 21, 3});
  // Of smooth colours it is the mean of each 8 x 8 pixels, about.
  const Tensor t = data::decode_image(file, "x", {.fast_height = 10, .fast_width = 20});
  const std::vector<u8> v = t.to_vector<u8>();
  for (size_t y = 0; y < 10; ++y)
    for (size_t x = 0; x < 20; ++x) {
      const size_t from = ((8 * y + 4) * 161 + 8 * x + 4) * 3, to = (y * 21 + x) * 3;
      for (size_t c = 0; c < 3; ++c) CHECK(std::abs(int(v[to + c]) - int(rgb[from + c])) < 12);
    }
}

TEST_CASE("jpeg: orientation is left as it is stored on request", "[data]") {
  const std::vector<u8> file = held(jpeg_file(gradient(24, 16, 3), 24, 16, 3), 6, false);
  TempDir dir;
  spit(dir / "f.jpg", text_of(file));
  const data::ImageOptions stored{.apply_orientation = false};
  CHECK(read_image(dir / "f.jpg").shape() == Shape{24, 16, 3});
  CHECK(read_image(dir / "f.jpg", {.apply_orientation = false}).shape() == Shape{16, 24, 3});
  CHECK(read_image(dir / "f.jpg", stored).to_vector<u8>() ==
        data::decode_image(jpeg_file(gradient(24, 16, 3), 24, 16, 3), "x").to_vector<u8>());
  CHECK(data::image_info(dir / "f.jpg") == data::ImageInfo{data::ImageFormat::jpeg, 24, 16, 3, 6});
  CHECK(data::image_info(dir / "f.jpg", stored) ==
        data::ImageInfo{data::ImageFormat::jpeg, 16, 24, 3, 6});
  const data::Image image = data::Image::open(dir / "f.jpg", stored);
  CHECK(image.is_encoded());
  CHECK(image.bytes().size() == file.size());
  CHECK(image.decoded().pixels().shape() == Shape{16, 24, 3});
  CHECK_FALSE(image.decoded().is_encoded());
  CHECK(image.decoded().bytes().empty());
}

TEST_CASE("jpeg: whatever is done to a file, it is read or refused with its place", "[data]") {
  FuzzPlan plan(2'000, 23);
  const std::vector<u8> rgb = gradient(24, 16, 3);
  const std::vector<std::string> golden{text_of(jpeg_file(rgb, 24, 16, 3, {.sampling = 4})),
                                        text_of(jpeg_file(rgb, 24, 16, 3, {.progressive = true})),
                                        text_of(jpeg_file(gradient(8, 8, 4), 8, 8, 4)),
                                        text_of(held(jpeg_file(rgb, 24, 16, 3), 6, false))};
  const std::vector<std::string_view> words{"\xff\xd8", "\xff\xda", "\xff\xc0", "\xff\xc2",
                                            "\xff\xc4", "\xff\xdb", "\xff\xd9", "\xff\xe1",
                                            "Exif",     "Adobe",    "\xff\xff", "\x01"};
  const long long accepted = taken_of(plan, golden, words, wt_test::takes_image);
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases);
}
#endif

TEST_CASE("jpeg: real files", "[data]") {
  NEEDS_JPEG();
  const auto file = [](const char* name) { return test_data(std::string("images/") + name); };
  if (file("testorig.jpg").empty()) SKIP_TEST("no shared/data/images");
  // The decoder that made it has another inverse transform, which differs by a level here and
  // there.
  const Tensor ours = read_image(file("testorig.jpg")), golden = read_image(file("testorig.ppm"));
  CHECK(ours.shape() == golden.shape());
  CHECK(mean_difference(ours, golden.to_vector<u8>()) < 0.5);
  CHECK(read_image(file("hopper_gray.jpg")).shape() == Shape{128, 128, 1});
  CHECK(read_image(file("hopper.jpg")).shape() == Shape{128, 128, 3});
  // Inks under Adobe's mark: red in the upper left corner, black elsewhere at the edges.
  const Tensor inks = read_image(file("pil_sample_cmyk.jpg"));
  CHECK(inks.size(2) == 3);
  const std::vector<u8> v = inks.to_vector<u8>();
  CHECK((v[0] > 200 && v[1] < 60 && v[2] < 60));
  CHECK((v[v.size() - 3] < 60 && v[v.size() - 2] < 60 && v[v.size() - 1] < 60));
  CHECK(mentions(message_of([&] { (void)read_image(file("truncated_jpeg.jpg")); }),
                 "truncated_jpeg.jpg"));
  for (const char* name : {"flower.jpg", "retina.jpg", "rocket.jpg"}) {
    const Tensor t = read_image(file(name));
    CHECK(t.size(2) == 3);
    // The same from memory.
    CHECK(data::decode_image(bytes_of(file(name)), name).to_vector<u8>() == t.to_vector<u8>());
  }
}

#if WARPTAPE_HAS_WEBP
static std::vector<u8> webp_taken(u8* out, size_t size) {
  std::vector<u8> v(out, out + size);
  WebPFree(out);
  return v;
}

TEST_CASE("webp: lossless, lossy, with alpha; cut, changed and animated ones", "[data]") {
  u8* out = nullptr;
  const std::vector<u8> rgb = gradient(19, 13, 3), rgba = gradient(19, 13, 4);
  size_t n = WebPEncodeLosslessRGB(rgb.data(), 19, 13, 19 * 3, &out);
  const std::vector<u8> exact = webp_taken(out, n);
  CHECK(data::decode_image(exact, "a").to_vector<u8>() == rgb);
  n = WebPEncodeRGB(rgb.data(), 19, 13, 19 * 3, 90, &out);
  const std::vector<u8> lossy = webp_taken(out, n);
  CHECK(mean_difference(data::decode_image(lossy, "a"), rgb) < 4);
  n = WebPEncodeLosslessRGBA(rgba.data(), 19, 13, 19 * 4, &out);
  const std::vector<u8> alpha = webp_taken(out, n);
  const Tensor t = data::decode_image(alpha, "a");
  CHECK(t.shape() == Shape{13, 19, 4});
  CHECK(t.to_vector<u8>() == rgba);

  for (const std::vector<u8>* whole : {&exact, &lossy, &alpha}) {
    for (size_t k = 12; k < whole->size(); ++k) {
      CAPTURE(k);
      REQUIRE(mentions(refusal({whole->data(), k}), "truncated download?"));
    }
    for (size_t bit = 12 * 8; bit < 8 * std::min<size_t>(whole->size(), 100); ++bit) {
      std::vector<u8> flipped = *whole;
      flipped[bit / 8] ^= u8(1 << bit % 8);
      (void)refusal(flipped);
    }
  }
  // An extended header whose flags say that an animation follows: 1 x 1, no frames yet.
  std::string moving("RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\0\0\0\0\0\0", 30);
  CHECK(mentions(refusal({reinterpret_cast<const u8*>(moving.data()), moving.size()}),
                 "an animated WebP file"));
}

TEST_CASE("webp: whatever is done to a file, it is read or refused with its place", "[data]") {
  const std::vector<u8> rgb = gradient(19, 13, 3), rgba = gradient(19, 13, 4);
  u8* out = nullptr;
  size_t n = WebPEncodeLosslessRGB(rgb.data(), 19, 13, 19 * 3, &out);
  const std::vector<u8> exact = webp_taken(out, n);
  n = WebPEncodeRGB(rgb.data(), 19, 13, 19 * 3, 90, &out);
  const std::vector<u8> lossy = webp_taken(out, n);
  n = WebPEncodeLosslessRGBA(rgba.data(), 19, 13, 19 * 4, &out);
  const std::vector<u8> alpha = webp_taken(out, n);
  FuzzPlan plan(2'000, 24);
  const std::vector<std::string_view> words{"RIFF", "WEBP", "VP8 ", "VP8L", "VP8X",
                                            "ALPH", "ANIM", "ANMF", "\xff", "\x01"};
  const std::vector<std::string> golden{text_of(exact), text_of(lossy), text_of(alpha)};
  const long long accepted = taken_of(plan, golden, words, wt_test::takes_image);
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases);
}
#endif
