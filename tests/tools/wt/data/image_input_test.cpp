#include "warptape/tools/wt/data/image_input.h"

#include "warptape/core/factories.h"
#include "warptape/data/npz.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/tiny_data.h"

using namespace wt;

namespace {

// u8 of a shape, its elements 0, 1, 2, ...
Tensor counting(const Shape& shape) {
  i64 n = 1;
  for (i64 s : shape) n *= s;
  std::vector<u8> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = u8(i);
  return tensor(v).reshape(shape);
}

std::vector<int> values(const Tensor& t) {
  std::vector<int> out;
  for (u8 v : t.to_vector<u8>()) out.push_back(v);
  return out;
}

const Shape kGrey{1, 2, 3}, kColour{3, 2, 2};

}  // namespace

TEST_CASE("npy files of every layout become a batch of images") {
  const TempDir dir;
  const std::string path = dir / "a.npy";
  const auto read = [&](const Tensor& t, const Shape& image) {
    data::write_npy(path, t);
    return tools::read_images(path, image, false);
  };
  CHECK(read(counting({2, 3}), kGrey).shape() == Shape{1, 1, 2, 3});
  CHECK(values(read(counting({2, 3}), kGrey)) == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(read(counting({4, 2, 3}), kGrey).shape() == Shape{4, 1, 2, 3});
  CHECK(read(counting({4, 1, 2, 3}), kGrey).shape() == Shape{4, 1, 2, 3});
  CHECK(read(counting({4, 2, 3, 1}), kGrey).shape() == Shape{4, 1, 2, 3});
  const Tensor colour = read(counting({2, 2, 3}), kColour);  // [H, W, C]
  CHECK(colour.shape() == Shape{1, 3, 2, 2});
  CHECK(values(colour) == std::vector<int>{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11});
  CHECK(values(read(counting({1, 2, 2, 3}), kColour)) == values(colour));
  CHECK(values(read(counting({1, 3, 2, 2}), kColour)) ==
        std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("channels are repeated, weighed or dropped") {
  const TempDir dir;
  const std::string path = dir / "a.npy";
  data::write_npy(path, counting({1, 1, 2, 2}));
  CHECK(values(tools::read_images(path, kColour, false)) ==
        std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  // One pixel of each colour; the last is 100, 50, 200.
  spit(dir / "a.ppm", std::string("P6 2 2 255\n") + "\xff" + std::string(3, '\0') + "\xff" +
                          std::string(3, '\0') + "\xff" + "\x64\x32\xc8");
  CHECK(values(tools::read_images(dir / "a.ppm", {1, 2, 2}, false)) ==
        std::vector<int>{76, 150, 29, 82});
  data::write_npy(path, counting({1, 4, 2, 2}));  // alpha goes
  CHECK(values(tools::read_images(path, kColour, false)) ==
        std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("idx files and pictures of another size") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 3, 2);
  const std::string idx = dir / "t10k-images-idx3-ubyte";
  CHECK(tools::read_images(idx, {1, 28, 28}, false).shape() == Shape{2, 1, 28, 28});
  CHECK(message_of([&] {
          (void)tools::read_images(idx, {1, 32, 32}, false);
        }) ==
        "DataError: " + idx + ": images are 28 x 28, the model takes 32 x 32\n  Try --resize");
  CHECK(tools::read_images(idx, {3, 32, 32}, true).shape() == Shape{2, 3, 32, 32});
  spit(dir / "a.pgm", std::string("P5 4 2 255\n") + "\x0a\x14\x1e\x28\x32\x3c\x46\x50");
  // Bilinear to half the width: the mean of neighbours.
  CHECK(values(tools::read_images(dir / "a.pgm", {1, 2, 2}, true)) ==
        std::vector<int>{15, 35, 55, 75});
}

TEST_CASE("what is no image is a data error with its name") {
  const TempDir dir;
  CHECK_THROWS_AS((void)tools::read_images(dir / "none", kGrey, false), DataError);
  spit(dir / "text", "hello, world");
  CHECK(mentions(message_of([&] { (void)tools::read_images(dir / "text", kGrey, false); }),
                 dir / "text"));
  data::write_npy(dir / "f.npy", zeros({2, 3}));
  CHECK(mentions(message_of([&] { (void)tools::read_images(dir / "f.npy", kGrey, false); }),
                 "images must be u8, got f32"));
  data::write_npy(dir / "v.npy", counting({5}));
  CHECK(mentions(message_of([&] { (void)tools::read_images(dir / "v.npy", kGrey, false); }),
                 "are not understood"));
  data::write_npy(dir / "flat.npy", counting({1, 3, 0, 2}));
  CHECK(mentions(message_of([&] { (void)tools::read_images(dir / "flat.npy", kColour, true); }),
                 "are not understood"));
  data::write_npy(dir / "c.npy", counting({1, 5, 2, 7}));
  CHECK_THROWS_AS((void)tools::read_images(dir / "c.npy", kGrey, false), DataError);
}
