// Folders of images: what is listed, what a batch has, bad images, files that change.
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/resize.h"
#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/data/combine.h"
#include "warptape/data/image_folder.h"
#include "warptape/data/loader.h"
#include "warptape/data/resample.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/jpeg_file.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using namespace wt;
using data::BadImages;
using data::ImageFolder;
using data::ImageFolderOptions;
namespace fs = std::filesystem;

namespace {

// A raw PPM of one colour.
std::string ppm(int height, int width, u8 red, u8 green = 7, u8 blue = 9) {
  std::string s = str("P6 ", width, " ", height, " 255\n");
  for (int i = 0; i < height * width; ++i) s += {char(red), char(green), char(blue)};
  return s;
}
std::string pgm(int height, int width, u8 grey) {
  return str("P5 ", width, " ", height, " 255\n") + std::string(size_t(height * width), char(grey));
}

// Classes cat (3 images), dog (2) and emu (1), of 4 x 5 pixels, whose red says which image it is.
struct Zoo : TempDir {
  Zoo() {
    for (const char* name : {"dog", "cat", "emu"}) fs::create_directory(*this / name);
    put("cat/b.ppm", ppm(4, 5, 11));
    put("cat/a.ppm", ppm(4, 5, 10));
    put("cat/c.PPM", ppm(4, 5, 12));
    put("dog/2.ppm", ppm(4, 5, 21));
    put("dog/10.ppm", ppm(4, 5, 20));
    put("emu/x.ppm", ppm(4, 5, 30));
  }
  void put(const std::string& name, const std::string& content) { spit(*this / name, content); }
  std::string made(const ImageFolderOptions& o = {}) const {
    return message_of([&] { (void)ImageFolder(path, o); });
  }
};

std::vector<i64> all_of(const ImageFolder& f) {
  std::vector<i64> all(size_t(f.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = i64(i);
  return all;
}
// The first value of every image.
std::vector<int> reds(const Tensor& x) {
  const std::vector<u8> all = x.to_vector<u8>();
  std::vector<int> v;
  for (size_t i = 0; i < size_t(x.size(0)); ++i)
    v.push_back(all[i * all.size() / size_t(x.size(0))]);
  return v;
}

}  // namespace

TEST_CASE("image folder: classes, order, batches", "[data]") {
  Zoo zoo;
  zoo.put("readme.txt", "of no class");
  const ImageFolder f(zoo.path);
  CHECK(f.classes() == std::vector<std::string>{"cat", "dog", "emu"});
  CHECK(f.class_index("dog") == 1);
  CHECK(mentions(message_of([&] { (void)f.class_index("cow"); }), "\"cow\" is none of the 3"));
  CHECK(f.size() == 6);
  CHECK(f.path(3).ends_with("/dog/10.ppm"));
  CHECK(f.label(5) == 2);
  CHECK(message_of([&] { (void)f.path(6); }).starts_with("IndexError"));
  const data::Batch b = f.batch(all_of(f));
  CHECK(b.x.shape() == Shape{6, 3, 4, 5});
  CHECK(b.x.dtype() == DType::u8);
  CHECK(reds(b.x) == std::vector<int>{10, 11, 12, 20, 21, 30});
  CHECK(b.y.to_vector<i64>() == std::vector<i64>{0, 0, 0, 1, 1, 2});
  const std::vector<u8> v = b.x.to_vector<u8>();
  CHECK((v[0] == 10 && v[20] == 7 && v[40] == 9));
  CHECK(f.batch({}).x.shape()[0] == 0);
  CHECK(message_of([&] { (void)f.batch(std::vector<i64>{6}); }).starts_with("IndexError"));
}

TEST_CASE("image folder: what is listed and what is left out", "[data]") {
  Zoo zoo;
  fs::create_directory(zoo / "cat/young");
  fs::create_directory(zoo / ".git");
  fs::create_directory(zoo / "cat/.cache");
  zoo.put("cat/young/a.ppm", ppm(4, 5, 13));
  zoo.put("cat/z.ppm", ppm(4, 5, 14));
  zoo.put("cat/an image by its content", ppm(4, 5, 15));
  zoo.put("cat/notes.txt", "no image");
  zoo.put("cat/.hidden.ppm", ppm(4, 5, 99));
  zoo.put("cat/.cache/a.ppm", ppm(4, 5, 99));
  zoo.put("dog/\xff\xfe.ppm", ppm(4, 5, 22));  // no UTF-8
  REQUIRE(mkfifo((zoo / "emu/pipe.jpg").c_str(), 0600) == 0);
  fs::create_symlink(zoo / "cat/a.ppm", zoo / "emu/link.ppm");
  fs::create_directory_symlink(zoo / "dog", zoo / "fox");
  const ImageFolder f(zoo.path);
  CHECK(f.classes() == std::vector<std::string>{"cat", "dog", "emu", "fox"});
  CHECK(f.left_out() == 2);  // the notes and the pipe
  // The files of a folder, then those of the folders in it.
  CHECK(reds(f.batch(all_of(f)).x) ==
        std::vector<int>{10, 15, 11, 12, 14, 13, 20, 21, 22, 10, 30, 20, 21, 22});
  // A message about the name that is no UTF-8.
  zoo.put("dog/\xff\xfe.ppm", "P6 5 4 255\n");
  const ImageFolder again(zoo.path);
  CHECK(
      mentions(message_of([&] { (void)again.batch(std::vector<i64>{8}); }), "\\xff\\xfe.ppm: at"));
}

TEST_CASE("image folder: roots that are refused", "[data]") {
  Zoo zoo;
  CHECK(mentions(message_of([] { (void)ImageFolder("/no/such/folder"); }),
                 "/no/such/folder: there is no such folder"));
  TempDir bare;
  CHECK(mentions(message_of([&] { (void)ImageFolder(bare.path); }), "no folders are in it"));
  spit(bare / "a.ppm", ppm(1, 1, 1));
  CHECK(
      mentions(message_of([&] { (void)ImageFolder(bare.path); }), "1 files are\n  Try ROOT/CLASS"));
  CHECK(
      mentions(message_of([&] { (void)ImageFolder(bare / "a.ppm"); }), "there is no such folder"));

  fs::create_directory(zoo / "gnu");
  CHECK(mentions(zoo.made(), "/gnu: a class without images\n  Try .allow_empty"));
  CHECK(ImageFolder(zoo.path, {.allow_empty = true}).classes().size() == 4);
  TempDir nothing;
  fs::create_directory(nothing / "a");
  CHECK(mentions(message_of([&] { (void)ImageFolder(nothing.path, {.allow_empty = true}); }),
                 "none of its classes has an image"));
  fs::remove(zoo / "gnu");

  fs::create_symlink("nowhere", zoo / "cat/lost.ppm");
  CHECK(mentions(zoo.made(),
                 "/cat/lost.ppm: cannot be looked at: No such file or directory (where "
                 "the link leads to)"));
  fs::remove(zoo / "cat/lost.ppm");
  fs::create_directory_symlink(zoo / "cat", zoo / "cat/again");
  CHECK(mentions(zoo.made(), "/cat/again: a link that leads back to a folder it lies in"));
  fs::remove(zoo / "cat/again");
  fs::create_symlink("circle", zoo / "cat/circle");
  CHECK(mentions(zoo.made(), "/cat/circle: cannot be looked at"));
  fs::remove(zoo / "cat/circle");
  CHECK(zoo.made().empty());

  if (::geteuid() != 0) {
    fs::permissions(zoo / "dog", fs::perms::none);
    CHECK(mentions(zoo.made(), "/dog: the folder cannot be read: Permission denied"));
    fs::permissions(zoo / "dog", fs::perms::owner_all);
  }
}

TEST_CASE("image folder: options that make no sense", "[data]") {
  Zoo zoo;
  CHECK(mentions(zoo.made({.channels = 2}), "channels must be 1 or 3, got 2"));
  CHECK(mentions(zoo.made({.size = -1}), "a size of -1 x -1"));
  CHECK(mentions(zoo.made({.size = {4, 0}}), "a size of 4 x 0"));
  CHECK(mentions(zoo.made({.bad = BadImages::blank}), "Try .size"));
  CHECK(mentions(zoo.made({.fast_downscale = true}), "Try .size"));
  CHECK(mentions(zoo.made({.keep_encoded = true, .limits = {.max_bytes = 100}}),
                 "keep_encoded would take 426 bytes, the limit is 100"));
}

TEST_CASE("image folder: sizes", "[data]") {
  Zoo zoo;
  zoo.put("cat/a.ppm", ppm(8, 5, 10));
  const ImageFolder f(zoo.path);
  const std::string why = message_of([&] { (void)f.batch(std::vector<i64>{1, 0}); });
  CHECK(why.starts_with("ShapeError"));
  CHECK(mentions(why, "/cat/a.ppm is 8 x 5, the first image of the batch 4 x 5\n  Try .size"));
  const ImageFolder sized(zoo.path, {.size = {6, 3}});
  const data::Batch b = sized.batch(all_of(sized));
  CHECK(b.x.shape() == Shape{6, 3, 6, 3});
  CHECK(reds(b.x) == std::vector<int>{10, 11, 12, 20, 21, 30});  // one colour remains one
  // Image by image, where the transforms say the size.
  const ImageFolder cropped(zoo.path, {.transform = {data::CenterCrop{4}, data::ToTensor{}}});
  const data::Batch c = cropped.batch(all_of(cropped));
  CHECK(c.x.shape() == Shape{6, 3, 4, 4});
  CHECK(c.x.dtype() == DType::f32);
  CHECK(c.x.narrow(0, 5, 1).to_vector<float>()[0] == Approx(30.0 / 255));
  const ImageFolder unsized(zoo.path, {.transform = {data::ToTensor{}}});
  CHECK(mentions(message_of([&] { (void)unsized.batch(std::vector<i64>{0, 1}); }), "ShapeError"));
}

TEST_CASE("image folder: the middle of an image, resized", "[data]") {
  // Against PyTorch's bilinear resizing, as the library's own upsample has it, of the same part.
  const i64 h = 37, w = 53;
  std::vector<u8> pixels;
  for (i64 i = 0; i < h * w * 3; ++i) pixels.push_back(u8((i * 2654435761u) >> 13));
  const Tensor image = tensor(std::vector<i64>(pixels.begin(), pixels.end()))
                           .to(DType::f32)
                           .reshape({1, h, w, 3})
                           .permute({0, 3, 1, 2});
  const auto worst = [&](i64 to_h, i64 to_w, bool keep_aspect, const Tensor& want) {
    std::vector<u8> got(size_t(3 * to_h * to_w));
    data::detail::resample(pixels.data(), h, w, 3,
                           data::detail::middle_box(h, w, to_h, to_w, keep_aspect), got.data(),
                           to_h, to_w);
    const std::vector<float> v = want.contiguous().to_vector<float>();
    REQUIRE(v.size() == got.size());
    double most = 0;
    for (size_t i = 0; i < v.size(); ++i)
      most = std::max(most, std::abs(double(got[i]) - std::round(double(v[i]))));
    return most;
  };
  const auto resized = [](const Tensor& t, i64 to_h, i64 to_w) {
    return data::Compose{data::Resize{{to_h, to_w}}}(t);
  };
  CHECK(worst(10, 12, false, resized(image, 10, 12)) <= 1);  // a level where a half is rounded
  CHECK(worst(80, 60, false, resized(image, 80, 60)) <= 1);
  CHECK(worst(1, 1, false, resized(image, 1, 1)) <= 1);
  CHECK(worst(h, w, false, image) == 0);
  CHECK(worst(h, w, true, image) == 0);
  // 37 x 53 covers 37 x 37 in its middle, which needs no resizing.
  CHECK(worst(37, 37, true, image.narrow(3, 8, 37)) == 0);
  // A part that is larger than the result: but for the pixels at its border, the part resized.
  std::vector<u8> got(3 * 9 * 9);
  data::detail::resample(pixels.data(), h, w, 3, data::detail::middle_box(h, w, 9, 9, true),
                         got.data(), 9, 9);
  const std::vector<float> part = resized(image.narrow(3, 8, 37), 9, 9).to_vector<float>();
  for (i64 c = 0; c < 3; ++c)
    for (i64 y = 0; y < 9; ++y)
      for (i64 x = 1; x < 8; ++x) {
        const size_t i = size_t((c * 9 + y) * 9 + x);
        CHECK(std::abs(double(got[i]) - std::round(double(part[i]))) <= 1);
      }
}

TEST_CASE("image folder: channels", "[data]") {
  Zoo zoo;
  zoo.put("cat/a.ppm", pgm(4, 5, 100));
  const ImageFolder colour(zoo.path), grey(zoo.path, {.channels = 1});
  const std::vector<u8> c = colour.batch(std::vector<i64>{0}).x.to_vector<u8>();
  CHECK(c == std::vector<u8>(60, 100));
  const data::Batch g = grey.batch(std::vector<i64>{0, 5});
  CHECK(g.x.shape() == Shape{2, 1, 4, 5});
  CHECK(reds(g.x) == std::vector<int>{100, int(std::lround(0.299 * 30 + 0.587 * 7 + 0.114 * 9))});
}

TEST_CASE("image folder: bad images by policy", "[data]") {
  Zoo zoo;
  zoo.put("cat/c.PPM", ppm(4, 5, 12).substr(0, 40));  // cut
  zoo.put("dog/10.ppm", "");
  zoo.put("emu/x.ppm", "BM this is no image that is read");
  const std::vector<std::string> reasons{"truncated download?", "the file is empty", "a BMP file"};

  const ImageFolder strict(zoo.path, {.size = 4});
  const std::string why = message_of([&] { (void)strict.batch(std::vector<i64>{0, 2}); });
  CHECK(why.starts_with("DataError: " + zoo / "cat/c.PPM: at byte"));
  CHECK(mentions(why, "Try .bad = data::BadImages::skip or blank"));
  CHECK(strict.batch(std::vector<i64>{0}).x.size(0) == 1);
  CHECK(strict.good_samples() == std::vector<i64>{0, 1, 4});
  const data::Subset good{strict, strict.good_samples()};
  CHECK(good.batch(std::vector<i64>{0, 1, 2}).y.to_vector<i64>() == std::vector<i64>{0, 0, 1});

  for (const BadImages policy : {BadImages::skip, BadImages::blank}) {
    for (const int workers : {0, 1, 3}) {
      const ImageFolder f(zoo.path, {.size = 4, .bad = policy, .cache_bytes = 100});
      CHECK(f.bad_images().empty());
      data::Loader loader(f, {.batch = 2, .shuffle = true, .seed = 3, .workers = workers});
      for (int epoch = 0; epoch < 2; ++epoch) {
        const std::vector<i64> order = data::epoch_order(6, true, 3, epoch);
        size_t at = 0;
        for (auto& [x, y] : loader)
          for (i64 i = 0; i < x.size(0); ++i, ++at) {
            CAPTURE(workers, epoch, order[at]);
            const bool skip = policy == BadImages::skip;
            // By sample: what is seen, and under which label.
            const int red[6] = {10, 11, skip ? 21 : 0, skip ? 21 : 0, 21, skip ? 10 : 0};
            const i64 label[6] = {0, 0, skip ? 1 : 0, 1, 1, skip ? 0 : 2};
            CHECK(reds(x)[size_t(i)] == red[order[at]]);
            CHECK(y.to_vector<i64>()[size_t(i)] == label[order[at]]);
          }
        CHECK(at == 6);
      }
      const std::vector<data::BadImage> bad = f.bad_images();
      REQUIRE(bad.size() == 3);
      const i64 samples[3] = {2, 3, 5};
      for (size_t k = 0; k < 3; ++k) {
        CHECK(bad[k].sample == samples[k]);
        CHECK(bad[k].path == f.path(samples[k]));
        CHECK(mentions(bad[k].reason, reasons[k]));
      }
    }
  }
  // Blank goes through the transforms like a black picture.
  const ImageFolder blank(zoo.path,
                          {.size = 4,
                           .transform = {data::ToTensor{}, data::Normalize{{0.5}, {0.25}}},
                           .bad = BadImages::blank});
  CHECK(blank.batch(std::vector<i64>{2}).x.to_vector<float>() == std::vector<float>(48, -2.0f));

  for (const char* name : {"cat/a.ppm", "cat/b.ppm", "dog/2.ppm"}) zoo.put(name, "");
  const ImageFolder none(zoo.path, {.bad = BadImages::skip});
  CHECK(mentions(message_of([&] { (void)none.batch(std::vector<i64>{1}); }),
                 "and all other images of its folder are bad"));
  CHECK(none.good_samples().empty());
}

TEST_CASE("image folder: files that vanish or change are errors, whatever the policy", "[data]") {
  Zoo zoo;
  const ImageFolder skip(zoo.path, {.bad = BadImages::skip}),
      kept(zoo.path, {.keep_encoded = true}), cached(zoo.path, {.cache_bytes = 1000});
  const data::Batch before = kept.batch(all_of(kept));
  (void)cached.batch(all_of(cached));
  fs::remove(zoo / "cat/a.ppm");
  zoo.put("dog/2.ppm", ppm(2, 5, 21));
  zoo.put("emu/x.ppm", "gone");
  CHECK(mentions(message_of([&] { (void)skip.batch(std::vector<i64>{0}); }),
                 "/cat/a.ppm: was there when its folder was listed, and is not now"));
  const std::string changed = message_of([&] { (void)skip.batch(std::vector<i64>{4}); });
  CHECK(changed.starts_with("DataError: " + zoo / "dog/2.ppm: has changed since its folder was"));
  CHECK(mentions(changed, "(71 bytes then, 41 now)"));
  CHECK(mentions(message_of([&] { (void)skip.batch(std::vector<i64>{5}); }), "has changed"));
  CHECK(skip.bad_images().empty());
  CHECK(skip.batch(std::vector<i64>{1}).x.size(0) == 1);
  // What is in memory stays.
  CHECK(kept.batch(all_of(kept)).x.to_vector<u8>() == before.x.to_vector<u8>());
  CHECK(cached.batch(all_of(cached)).x.to_vector<u8>() == before.x.to_vector<u8>());
}

TEST_CASE("image folder: the cache keeps what fits", "[data]") {
  Zoo zoo;
  for (const u64 limit : {u64{0}, u64{59}, u64{150}, u64{1} << 30}) {
    const ImageFolder f(zoo.path, {.cache_bytes = limit});
    data::Loader loader(f, {.batch = 2, .workers = 2});
    std::vector<u8> first, second;
    for (std::vector<u8>* to : {&first, &second})
      for (auto& [x, y] : loader) {
        const std::vector<u8> v = x.to_vector<u8>();
        to->insert(to->end(), v.begin(), v.end());
      }
    CHECK(first == second);
    CHECK(f.cached_bytes() == std::min<u64>(limit / 60, 6) * 60);
  }
}

TEST_CASE("image folder: the same for any number of workers, augmented, in every way of keeping",
          "[data]") {
  Zoo zoo;
  for (int i = 0; i < 30; ++i) {
    std::string image = ppm(9 + i % 4, 11 - i % 3, u8(3 * i));
    for (size_t k = image.size() - 30; k < image.size(); ++k) image[k] = char(5 * k + size_t(i));
    zoo.put(str("dog/more", i, ".ppm"), image);
  }
  std::vector<std::vector<float>> seen;
  const auto epochs = [&](const ImageFolderOptions& o, int workers) {
    const ImageFolder f(zoo.path, o);
    data::Loader loader(f, {.batch = 4, .shuffle = true, .seed = 1, .workers = workers});
    std::vector<float> all;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (auto& [x, y] : loader)
        for (const Tensor& t : {x, y.to(DType::f32)}) {
          const std::vector<float> v = t.to_vector<float>();
          all.insert(all.end(), v.begin(), v.end());
        }
    return all;
  };
  for (const data::ImageSize size : {data::ImageSize(8), data::ImageSize(0)}) {
    const ImageFolderOptions plain{
        .size = size,
        .transform = {data::RandomResizedCrop{6}, data::RandomHorizontalFlip{}, data::ToTensor{}},
        .seed = 5};
    ImageFolderOptions kept = plain, cached = plain;
    kept.keep_encoded = true, cached.cache_bytes = 4000;
    const std::vector<float> want = epochs(plain, 0);
    CHECK(want.size() == 2 * 36 * (3 * 36 + 1));
    for (const int workers : {1, 2, 4}) CHECK(epochs(plain, workers) == want);
    CHECK(epochs(kept, 2) == want);
    CHECK(epochs(cached, 2) == want);
    // Epochs differ: the augmentation's draws, not the order alone.
    const ImageFolder f(zoo.path, plain);
    CHECK(f.batch(std::vector<i64>{5}, 0).x.to_vector<float>() !=
          f.batch(std::vector<i64>{5}, 1).x.to_vector<float>());
  }
}

TEST_CASE("image folder: JPEG files, orientation and fast downscaling", "[data]") {
#if WARPTAPE_HAS_JPEG
  TempDir dir;
  fs::create_directory(dir / "a");
  std::vector<u8> pixels;
  for (int y = 0; y < 96; ++y)
    for (int x = 0; x < 128; ++x)
      for (int c = 0; c < 3; ++c) pixels.push_back(u8(c == 0 ? 2 * x : c == 1 ? 2 * y : x + y));
  const std::vector<u8> file = jpeg_file(pixels, 128, 96, 3);
  spit(dir / "a/1.jpg", std::string(file.begin(), file.end()));
  const ImageFolder exact(dir.path, {.size = {12, 16}}),
      fast(dir.path, {.size = {12, 16}, .fast_downscale = true});
  const std::vector<u8> a = exact.batch(std::vector<i64>{0}).x.to_vector<u8>(),
                        b = fast.batch(std::vector<i64>{0}).x.to_vector<u8>();
  REQUIRE(a.size() == b.size());
  int most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(int(a[i]) - int(b[i])));
  CHECK(most > 0);  // the two are not the same
  CHECK(most < 16);
#else
  SKIP_TEST("this build has no libjpeg-turbo");
#endif
}
