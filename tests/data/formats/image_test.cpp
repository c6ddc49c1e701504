// Images from files: right ones of every kind, damaged ones, and whatever a fuzzer makes of them.
// The PNG files are made here, by hand.
#include "warptape/data/image.h"

#include <array>
#include <functional>

#include "warptape/config.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/gzip.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace std::string_literals;
using data::read_image;

namespace {

std::vector<int> pixels(const Tensor& t) {
  const auto bytes = t.to_vector<u8>();
  return {bytes.begin(), bytes.end()};
}

std::string big_endian(u32 v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }

u32 crc32_of(std::string_view data) {
  u32 crc = ~0u;
  for (const char c : data) {
    crc ^= u8(c);
    for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

std::string chunk(std::string_view type, std::string_view data) {
  const std::string body = std::string(type) + std::string(data);
  return big_endian(u32(data.size())) + body + big_endian(crc32_of(body));
}

// A zlib stream of stored blocks of at most `block` bytes.
std::string stored(std::string_view data, size_t block = 100) {
  u32 a = 1, b = 0;
  for (const char c : data) a = (a + u8(c)) % 65521, b = (b + a) % 65521;
  std::string out = "\x78\x01";
  do {
    const std::string_view part = data.substr(0, block);
    data.remove_prefix(part.size());
    const u32 n = u32(part.size());
    out += char(data.empty());
    out += {char(n), char(n >> 8), char(~n), char(~n >> 8)};
    out += part;
  } while (!data.empty());
  return out + big_endian(b << 16 | a);
}

struct Png {
  u32 width = 1, height = 1;
  int depth = 8, colour = 0;
  bool interlaced = false;
  std::string palette = {}, transparent = {};
  // Sample c of pixel (y, x).
  std::function<int(u32 y, u32 x, int c)> sample = [](u32, u32, int) { return 0; };

  int channels() const { return colour == 2 ? 3 : colour == 4 ? 2 : colour == 6 ? 4 : 1; }

  // Row y of the pixels at x0, x0 + dx, ..., packed.
  std::string row(u32 y, u32 x0, u32 dx) const {
    std::string out;
    u32 bits = 0;
    int n = 0;
    for (u32 x = x0; x < width; x += dx) {
      for (int c = 0; c < channels(); ++c) {
        const int v = sample(y, x, c);
        if (depth == 16) out += char(v >> 8);
        if (depth >= 8) {
          out += char(v);
          continue;
        }
        bits = bits << depth | u32(v);
        if ((n += depth) == 8) out += char(bits), bits = 0, n = 0;
      }
    }
    if (n) out += char(bits << (8 - n));
    return out;
  }

  // The rows with their filters, each of the five in turn (https://www.w3.org/TR/png/#9Filters).
  std::string filtered(const std::vector<std::string>& rows) const {
    const size_t back = size_t(std::max(1, channels() * depth / 8));
    std::string out, above;
    int kind = 0;
    for (const std::string& row : rows) {
      if (above.size() != row.size()) above.assign(row.size(), '\0');
      out += char(kind);
      for (size_t i = 0; i < row.size(); ++i) {
        const int left = i < back ? 0 : u8(row[i - back]), up = u8(above[i]);
        const int corner = i < back ? 0 : u8(above[i - back]);
        const int guess = left + up - corner;
        const int a = std::abs(guess - left), b = std::abs(guess - up),
                  c = std::abs(guess - corner);
        const int paeth = a <= b && a <= c ? left : b <= c ? up : corner;
        const std::array<int, 5> from{0, left, up, (left + up) / 2, paeth};
        out += char(u8(row[i]) - from[size_t(kind)]);
      }
      above = row;
      kind = (kind + 1) % 5;
    }
    return out;
  }

  std::string scanlines() const {
    if (!interlaced) {
      std::vector<std::string> rows;
      for (u32 y = 0; y < height; ++y) rows.push_back(row(y, 0, 1));
      return filtered(rows);
    }
    const u32 adam7[7][4] = {{0, 0, 8, 8}, {0, 4, 8, 8}, {4, 0, 8, 4}, {0, 2, 4, 4},
                             {2, 0, 4, 2}, {0, 1, 2, 2}, {1, 0, 2, 1}};  // y, x, steps of both
    std::string out;
    for (const auto& [y0, x0, dy, dx] : adam7) {
      if (x0 >= width) continue;
      std::vector<std::string> rows;
      for (u32 y = y0; y < height; y += dy) rows.push_back(row(y, x0, dx));
      out += filtered(rows);
    }
    return out;
  }

  std::string header() const {
    return big_endian(width) + big_endian(height) + char(depth) + char(colour) + "\0\0"s +
           char(interlaced);
  }

  // `data`: the compressed lines.
  std::string file_of(const std::string& header, const std::string& data) const {
    std::string out = "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("tEXt", "Title\0x"s);
    if (!palette.empty()) out += chunk("PLTE", palette);
    if (!transparent.empty()) out += chunk("tRNS", transparent);
    out += chunk("IDAT", data.substr(0, data.size() / 2));
    out += chunk("IDAT", data.substr(data.size() / 2));
    return out + chunk("IEND", "");
  }
  std::string file(const std::string& header, const std::string& lines) const {
    return file_of(header, stored(lines));
  }
  std::string file() const { return file(header(), scanlines()); }
};

constexpr int kGrey = 0, kRgb = 2, kPalette = 3, kGreyAlpha = 4, kRgba = 6;

#define NEEDS_SPNG() \
  if (!WARPTAPE_HAS_SPNG) SKIP_TEST("built without libspng")

// Every chunk's checksum made right again, as far as the chunks can be followed.
std::string with_right_checksums(std::string file) {
  for (size_t at = 8; at + 12 <= file.size();) {
    const u8* const p = reinterpret_cast<const u8*>(file.data()) + at;
    const u64 n = u64(p[0]) << 24 | u64(p[1]) << 16 | u64(p[2]) << 8 | p[3];
    if (n > file.size() - at - 12) break;
    file.replace(at + 8 + n, 4, big_endian(crc32_of({file.data() + at + 4, n + 4})));
    at += 12 + n;
  }
  return file;
}

}  // namespace

TEST_CASE("image: plain and raw PGM and PPM") {
  const TempDir dir;
  const auto read = [&](const std::string& text) {
    spit(dir / "f", text);
    return read_image(dir / "f");
  };
  const Tensor grey = read("P5 3 2 255\nabcdef");
  CHECK(grey.shape() == Shape{2, 3, 1});
  CHECK(grey.dtype() == DType::u8);
  CHECK(pixels(grey) == std::vector<int>{'a', 'b', 'c', 'd', 'e', 'f'});
  const Tensor colour = read("P6\n# by hand\n1 # wide\n2\n255\nabc\0\xff\n"s);
  CHECK(colour.shape() == Shape{2, 1, 3});
  CHECK(pixels(colour) == std::vector<int>{'a', 'b', 'c', 0, 255, '\n'});
  CHECK(pixels(read("P2\n2 2\n255\n 0  12\n255 7\n")) == std::vector<int>{0, 12, 255, 7});
  CHECK(pixels(read("P3 1 1 255 1 2 3")) == std::vector<int>{1, 2, 3});
  // Scaled to 255, rounded.
  CHECK(pixels(read("P2 4 1 3 0 1 2 3")) == std::vector<int>{0, 85, 170, 255});
  CHECK(pixels(read("P5 3 1 100\n\0\x32\x64"s)) == std::vector<int>{0, 128, 255});
  CHECK(pixels(read("P5 2 1 255\nab\r\n \t")) == std::vector<int>{'a', 'b'});
}

TEST_CASE("image: PGM and PPM files that are refused are named with their byte") {
  const TempDir dir;
  const auto refusal = [&](const std::string& text) {
    spit(dir / "f", text);
    return message_of([&] { (void)read_image(dir / "f"); });
  };
  const auto at = [&](int byte) { return dir / "f" + ": at byte " + std::to_string(byte) + ": "; };
  CHECK(mentions(refusal("P5 3 2 255\nabcde"),
                 at(16) + "the header promises 2 x 3 pixels, 6 bytes at least; 5 follow"));
  CHECK(mentions(refusal("P5 3 2 255\nabcdefg"), at(17) + "1 bytes follow the last pixel"));
  CHECK(mentions(refusal("P5 3 2 65535\nabcdefabcdef"), "maxval 65535 is more than 255"));
  CHECK(mentions(refusal("P5 3 2 0\nabcdef"), at(7) + "the maxval is 0"));
  CHECK(mentions(refusal("P5 0 2 255\n"), at(3) + "the width is 0"));
  CHECK(mentions(refusal("P5 3 x 255\n"), at(5) + "no digit where the height should be"));
  CHECK(mentions(refusal("P5 3 -2 255\n"), at(5) + "no digit"));
  CHECK(mentions(refusal("P5 3"), "the file ends where its height should be"));
  CHECK(mentions(refusal("P5x"), "no white space before the width"));
  CHECK(mentions(refusal("P5 # no end"), "the file ends where its width should be"));
  CHECK(mentions(refusal("P5 3 2 255"), "one white space must follow the header"));
  CHECK(mentions(refusal("P5 99999999999 1 255\n"), at(3) + "width is more than 2000000000"));
  CHECK(mentions(refusal("P5 2000000000 2000000000 255\nx"), "the limit is 64000000"));
  CHECK(mentions(refusal("P6 60000000 1 255\nx"), "180000000 bytes at least; 1 follow"));
  CHECK(mentions(refusal("P2 2 1 255 1 256"), at(13) + "sample is more than 255"));
  CHECK(mentions(refusal("P2 2 1 9 1 10"), "sample is more than 9"));
  CHECK(mentions(refusal("P5 1 1 9\n\x0a"), at(9) + "sample 10 is more than maxval 9"));
  CHECK(mentions(refusal("P2 2 1 255 10 -1"), "no digit where the sample should be"));
  CHECK(mentions(refusal("P2 3 1 255 1 1"), "5 bytes at least"));
  CHECK(mentions(refusal("P2 2 1 255 100 "), "the file ends where its sample should be"));
  CHECK(mentions(refusal("P4 8 1\n\x01"), "P4 is a Netpbm format that is not read"));
  CHECK(mentions(refusal(""), "the file is empty"));
  CHECK(mentions(refusal("GIF89a"), "a GIF file; PNG, JPEG, WebP, PPM and PGM are read"));
  CHECK(
      mentions(refusal("\x1f\x8b\x08 bomb"), "a gzip file; PNG, JPEG, WebP, PPM and PGM are read"));
  CHECK(mentions(refusal("hello\x01"),
                 "neither PNG nor JPEG nor WebP nor PPM nor PGM: it begins with \"hello\\x01\""));
  CHECK(mentions(refusal("\x89PNG\n\x1a\n"), "text mode"));
  CHECK(mentions(message_of([] { (void)read_image("/no/such.png"); }), "/no/such.png"));
  spit(dir / "f", "P5 3 2 255\nabcdef");
  CHECK(mentions(message_of([&] { (void)read_image(dir / "f", {.max_bytes = 5}); }),
                 "the limit is 5"));
}

TEST_CASE("image: PNG of every colour type, depth and both row orders") {
  NEEDS_SPNG();
  const TempDir dir;
  for (const auto& [colour, depth] : std::vector<std::pair<int, int>>{{kGrey, 1},
                                                                      {kGrey, 2},
                                                                      {kGrey, 4},
                                                                      {kGrey, 8},
                                                                      {kGrey, 16},
                                                                      {kRgb, 8},
                                                                      {kRgb, 16},
                                                                      {kGreyAlpha, 8},
                                                                      {kGreyAlpha, 16},
                                                                      {kRgba, 8},
                                                                      {kRgba, 16}}) {
    for (const bool interlaced : {false, true}) {
      for (const auto& [h, w] : {std::pair{1u, 1u}, {2u, 3u}, {7u, 5u}, {9u, 17u}}) {
        CAPTURE(colour, depth, interlaced, h, w);
        const int top = (1 << depth) - 1;
        Png png{w, h, depth, colour, interlaced};
        png.sample = [&](u32 y, u32 x, int c) {
          return int((y * 7919 + x * 104729 + u32(c) * 15485863 + y * x * 31) % u32(top + 1));
        };
        spit(dir / "f", png.file());
        const Tensor image = read_image(dir / "f");
        REQUIRE(image.shape() == Shape{i64(h), i64(w), png.channels()});
        std::vector<int> wanted;
        for (u32 y = 0; y < h; ++y)
          for (u32 x = 0; x < w; ++x)
            for (int c = 0; c < png.channels(); ++c)
              wanted.push_back(int(png.sample(y, x, c) * 255.0 / top + 0.5));
        REQUIRE(pixels(image) == wanted);
      }
    }
  }
}

TEST_CASE("image: PNG palettes and transparent colours") {
  NEEDS_SPNG();
  const TempDir dir;
  const auto read = [&](const Png& png) {
    spit(dir / "f", png.file());
    return read_image(dir / "f");
  };
  const std::string palette = "\x01\x02\x03\x0a\x0b\x0c\xff\xfe\xfd";
  for (const int depth : {2, 4, 8}) {
    Png png{3, 1, depth, kPalette};
    png.palette = palette;
    png.sample = [](u32, u32 x, int) { return int(2 - x); };
    const Tensor opaque = read(png);
    CHECK(opaque.shape() == Shape{1, 3, 3});
    CHECK(pixels(opaque) == std::vector<int>{255, 254, 253, 10, 11, 12, 1, 2, 3});
    png.transparent = "\x80\x00"s;  // of the first two entries
    const Tensor image = read(png);
    CHECK(image.shape() == Shape{1, 3, 4});
    CHECK(pixels(image) == std::vector<int>{255, 254, 253, 255, 10, 11, 12, 0, 1, 2, 3, 128});
  }
  Png grey{3, 1, 8, kGrey};
  grey.transparent = "\0\x02"s;
  grey.sample = [](u32, u32 x, int) { return int(x + 1); };
  CHECK(read(grey).shape() == Shape{1, 3, 2});
  CHECK(pixels(read(grey)) == std::vector<int>{1, 255, 2, 0, 3, 255});
  grey.depth = 2;
  CHECK(pixels(read(grey)) == std::vector<int>{85, 255, 170, 0, 255, 255});
  grey.depth = 16;
  grey.transparent = "\x02\x02"s;
  grey.sample = [](u32, u32 x, int) { return int((x + 1) * 257 + (x == 2)); };
  CHECK(pixels(read(grey)) == std::vector<int>{1, 255, 2, 0, 3, 255});
  for (const int depth : {8, 16}) {
    Png rgb{2, 1, depth, kRgb};
    rgb.transparent = depth == 8 ? "\0\x01\0\x02\0\x03"s : "\x01\x01\x02\x02\x03\x03"s;
    rgb.sample = [&](u32, u32 x, int c) { return (c + 1 + 9 * int(x)) * (depth == 8 ? 1 : 257); };
    CHECK(pixels(read(rgb)) == std::vector<int>{1, 2, 3, 0, 10, 11, 12, 255});
  }
}

TEST_CASE("image: a PNG that another program wrote") {
  NEEDS_SPNG();
  const TempDir dir;
  // PIL.Image.new("RGB", (2, 2)) with red, green, blue and (1, 2, 3), saved by Pillow.
  const unsigned char file[] = {
      0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
      0x44, 0x52, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x08, 0x02, 0x00, 0x00,
      0x00, 0xfd, 0xd4, 0x9a, 0x73, 0x00, 0x00, 0x00, 0x16, 0x49, 0x44, 0x41, 0x54, 0x78,
      0x9c, 0x63, 0xf8, 0xcf, 0xc0, 0xc0, 0xf0, 0x9f, 0x81, 0x81, 0x81, 0xe1, 0x3f, 0x23,
      0x13, 0x33, 0x00, 0x19, 0xfe, 0x03, 0x04, 0xc5, 0x48, 0x75, 0xbc, 0x00, 0x00, 0x00,
      0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
  spit(dir / "f", std::string(reinterpret_cast<const char*>(file), sizeof file));
  CHECK(pixels(read_image(dir / "f")) ==
        std::vector<int>{255, 0, 0, 0, 255, 0, 0, 0, 255, 1, 2, 3});
}

TEST_CASE("image: a PNG is read, or the message says what to install") {
  const TempDir dir;
  spit(dir / "f", Png{}.file());
  if (WARPTAPE_HAS_SPNG) {
    CHECK(pixels(read_image(dir / "f")) == std::vector<int>{0});
  } else {
    CHECK_THROWS_AS(read_image(dir / "f"), NotAvailable);
    CHECK(mentions(message_of([&] { (void)read_image(dir / "f"); }), "install libspng-dev"));
  }
}

TEST_CASE("image: damaged PNG files are named with byte and row") {
  NEEDS_SPNG();
  const TempDir dir;
  const auto refusal = [&](const std::string& text) {
    spit(dir / "f", text);
    return message_of([&] { (void)read_image(dir / "f"); });
  };
  Png png{20, 30, 8, kRgb};
  png.sample = [](u32 y, u32 x, int c) { return int(y + x + u32(c)); };
  const std::string good = png.file();
  for (size_t n = 0; n < good.size(); ++n) {  // cut at every byte
    CAPTURE(n, good.size());
    const std::string text = refusal(good.substr(0, n));
    REQUIRE(!text.empty());
    REQUIRE(text.find(dir / "f") != text.npos);
  }
  CHECK(refusal(good).empty());
  CHECK(mentions(refusal(good.substr(0, good.size() * 3 / 4)), "the PNG data ends early, row 1"));
  std::string last = good;
  last.back() ^= 1;  // of the last checksum
  CHECK(mentions(refusal(last), "damaged PNG"));
  std::string flipped = good;
  flipped[good.size() / 2] ^= 1;
  CHECK(mentions(refusal(flipped), "damaged PNG"));
  std::string lines = png.scanlines();
  lines[5 * 61] = 7;
  CHECK(mentions(refusal(png.file(png.header(), lines)), "damaged PNG, row "));
  Png huge{60'000, 1'000'000'000, 8, kRgb};
  CHECK(mentions(refusal(huge.file(huge.header(), lines)), "cannot hold"));
  Png wide{70'000, 1, 1, kGrey};
  wide.width = 2'000'000'000;
  CHECK(mentions(refusal(wide.file(wide.header(), std::string(250'000, '\0'))),
                 "the limit is 64000000"));
  Png empty{0, 1, 8, kGrey};
  CHECK(mentions(refusal(empty.file()), "damaged PNG"));
  spit(dir / "f", good);
  CHECK(mentions(message_of([&] { (void)read_image(dir / "f", {.max_bytes = 1000}); }),
                 "the limit is 1000"));
}

TEST_CASE("image: bytes of a PNG that belong to no pixel are refused") {
  NEEDS_SPNG();
  const TempDir dir;
  const auto refusal = [&](const std::string& text) {
    spit(dir / "f", text);
    return message_of([&] { (void)read_image(dir / "f"); });
  };
  for (const bool interlaced : {false, true}) {
    CAPTURE(interlaced);
    const Png png{5, 3, 8, kRgb, interlaced};
    const std::string good = png.file(), lines = png.scanlines(), packed = stored(lines);
    REQUIRE(refusal(good) == "");
    CHECK(mentions(refusal(good + "PK"), ": at byte " + std::to_string(good.size()) +
                                             ": 2 bytes follow the end of the image"));
    const std::string more = "the image data goes on after the last pixel";
    CHECK(mentions(refusal(png.file(png.header(), lines + '\0')), more));
    CHECK(mentions(refusal(png.file(png.header(), lines + std::string(200'000, '\0'))), more));
    CHECK(mentions(refusal(png.file_of(png.header(), packed + "more")),
                   "4 bytes follow the image data"));
    // A chunk of its own behind the data, and data without its end.
    std::string behind = good;
    behind.insert(good.size() - 12, chunk("IDAT", "more"));
    CHECK(mentions(refusal(behind), "4 bytes follow the image data"));
    CHECK(refusal(png.file_of(png.header(), packed.substr(0, packed.size() - 4))) != "");
  }
  // A hundred million zeros behind four pixels, in half a million bytes.
  const std::string bomb = "\x78\x01" + wt_test::deflated_zeros(388'000);
  const Png small{2, 2, 8, kGrey};
  CHECK(mentions(refusal(small.file_of(small.header(), bomb)), "goes on after the last pixel"));
}

TEST_CASE("ppm: whatever is done to a file, it is read or refused with its place") {
  FuzzPlan plan(10'000, 21);
  const std::vector<std::string> golden{"P5 3 2 255\nabcdef", "P6\n#c\n2 1\n200\nabcdef",
                                        "P2 3 2 15\n1 2 3\n4 5 15\n", "P3 1 2 255 1 2 3 4 5 255"};
  const std::vector<std::string_view> words{"P2", "P3", "P5",  "P6",         " ",        "\n", "#",
                                            "0",  "1",  "255", "4000000000", "99999999", "-"};
  const long long accepted = taken_of(plan, golden, words, wt_test::takes_image);
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases / 2);
}

TEST_CASE("png: whatever is done to a file, it is read or refused with its place") {
  NEEDS_SPNG();
  FuzzPlan plan(10'000, 22);
  std::vector<Png> golden(5);
  golden[0] = {7, 5, 8, kRgb}, golden[1] = {9, 3, 2, kGrey, true}, golden[2] = {4, 4, 4, kPalette};
  golden[3] = {3, 5, 16, kGreyAlpha}, golden[4] = {5, 3, 16, kRgb, true};
  golden[2].palette = std::string(48, '\x55'), golden[2].transparent = "\x01\x02";
  golden[4].transparent = "\0\0\0\0\0\0"s;
  for (Png& png : golden) png.sample = [](u32 y, u32 x, int c) { return int(y + x + u32(c)) % 4; };
  const std::vector<std::string_view> words{"IHDR",
                                            "IDAT",
                                            "IEND",
                                            "PLTE",
                                            "tRNS",
                                            std::string_view("\0\0\0\0", 4),
                                            "\xff\xff\xff\xff",
                                            "\x7f\xff\xff\xff",
                                            "\x10",
                                            "\x01"};
  long long accepted = 0;
  for (long long i = 0; i < plan.cases; ++i) {
    const Png& png = golden[size_t(i) % golden.size()];
    std::string text;
    switch (plan.random() % 4) {
      case 0:
        text = mutated(png.file(), plan.random, words);
        break;
      case 1:
        text = with_right_checksums(mutated(png.file(), plan.random, words));
        break;
      case 2:
        text = png.file(png.header(), mutated(png.scanlines(), plan.random, words));
        break;
      default:
        text = png.file(mutated(png.header(), plan.random, words), png.scanlines());
    }
    accepted += wt_test::takes_image(text);
  }
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases);
}
