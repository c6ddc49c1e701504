// wt data show: transforms as text, pictures of all kinds of sets, and the sheet.
#include <filesystem>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/data/image.h"
#include "warptape/data/npz.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/data/contact_sheet.h"
#include "warptape/tools/wt/data/transform_text.h"

using namespace wt;
using namespace wt::tools;
using namespace wt_test;

namespace {

std::string augment_text(const std::string& text) {
  return data::Compose(transforms_of(text)).text();
}
std::string refusal(const std::string& text) {
  return message_of([&] { (void)transforms_of(text); });
}

Picture flat(i64 c, i64 h, i64 w, int level) {
  return {full({c, h, w}, level, {.dtype = DType::u8, .device = Device::cpu()}), "a <b>", 0};
}

std::vector<u8> pixel(const Tensor& sheet, i64 y, i64 x) {
  return sheet[y][x].contiguous().to_vector<u8>();
}

#if WARPTAPE_HAS_SPNG
#define NEEDS_SPNG() (void)0
#else
#define NEEDS_SPNG() SKIP_TEST("this build has no libspng")
#endif

}  // namespace

TEST_CASE("transforms as text become those of data/transforms.h", "[data]") {
  CHECK(augment_text("RandomCrop(32,4),RandomHorizontalFlip") ==
        "Compose(RandomCrop(32, padding=4), RandomHorizontalFlip(0.5))");
  CHECK(augment_text(" RandomResizedCrop( 8 , 0.25, 1 ) , RandomHorizontalFlip(1)") ==
        "Compose(RandomResizedCrop(8), RandomHorizontalFlip(1))");
  CHECK(augment_text("Resize(7), Cutout(3)") == "Compose(Resize(7), Cutout(3))");
  CHECK(augment_text("CenterCrop(5)") == "Compose(CenterCrop(5))");
  CHECK(augment_text("RandomRotation(20), RandomAffine(5, 0.1, 0.8, 1.2, 3)") ==
        "Compose(RandomRotation(20), RandomAffine(5, translate=[0.1, 0.1], scale=[0.8, 1.2], "
        "shear_x=3))");
  CHECK(augment_text("ColorJitter(0.5, 0, 0, 0.1), RandomGrayscale, RandAugment(3, 5)") ==
        "Compose(ColorJitter(brightness=[0.5, 1.5], hue=[-0.1, 0.1]), RandomGrayscale(0.1), "
        "RandAugment(3, 5))");
  CHECK(augment_text("RandomGrayscale(1e-400)") == "Compose(RandomGrayscale(0))");
  CHECK(augment_text("RandAugment, RandomErasing(1)") ==
        "Compose(RandAugment(2, 9), RandomErasing(1))");
  CHECK(augment_text("RandomCrop(32, padding=4), ColorJitter(0.5, contrast = 0, saturation=0)") ==
        augment_text("RandomCrop(32, 4), ColorJitter(0.5)"));
  CHECK(mentions(refusal("RandomCrop(32, paddng=4)"), "number 2 of RandomCrop is 'padding', got"));
  CHECK(mentions(refusal("RandomCrop(=4)"), "expected a number at character 12"));
  CHECK(mentions(refusal("RandomCrop(4), ToTensor"), "ToTensor is not for --augment"));
  CHECK(augment_text("") == "Compose()");
  CHECK(mentions(refusal("RandmCrop(3)"), "did you mean 'RandomCrop'?"));
  CHECK(mentions(refusal("RandomCrop"), "takes 1 to 2 numbers, got 0"));
  CHECK(mentions(refusal("Cutout(1, 2)"), "takes 1 numbers, got 2"));
  CHECK(mentions(refusal("RandomCrop(3.5)"), "a whole number, got 3.5"));
  CHECK(mentions(refusal("RandomCrop(3"), "expected ')' at character 13"));
  CHECK(mentions(refusal("Resize(3) Cutout(2)"), "expected ','"));
  CHECK(mentions(refusal("Resize(x)"), "expected a number at character 8"));
  CHECK(mentions(refusal("3"), "a transform's name"));
}

TEST_CASE("pictures are read out of every kind of set, with their labels", "[data]") {
  const TempDir dir;
  write_tiny_fashion(dir, 40, 3);
  PictureSet s = read_pictures(dir.path, {.count = 12});
  CHECK(s.what == "Fashion-MNIST: 40 images of 28 x 28");
  REQUIRE(s.pictures.size() == 12);
  CHECK(s.pictures[3].sample == 3);
  CHECK(s.pictures[0].label.size() > 1);
  const PictureSet digits = read_pictures(dir.path, {.count = 1, .digits = true});
  CHECK(digits.what == "40 images of 28 x 28");
  CHECK(digits.pictures[0].label.size() == 1);
  CHECK(s.pictures[0].pixels.shape() == Shape{1, 28, 28});
  CHECK(read_pictures(dir.path, {.count = 100, .shuffle = true, .seed = 1}).pictures.size() == 40);
  CHECK(read_pictures(dir.path, {.count = 12, .shuffle = true, .seed = 1}).pictures[0].sample !=
        read_pictures(dir.path, {.count = 12, .shuffle = true, .seed = 2}).pictures[0].sample);
  const PictureSet idx = read_pictures(dir / "t10k-images-idx3-ubyte", {.count = 5});
  CHECK(idx.pictures.size() == 3);
  CHECK(idx.pictures[2].label == "2");

  const TempDir cifar;
  write_tiny_cifar(cifar, 5);
  s = read_pictures(cifar.path, {.count = 2});
  CHECK(s.pictures[0].pixels.shape() == Shape{3, 32, 32});
  CHECK(s.pictures.size() == 2);

  const TempDir folder;
  std::filesystem::create_directory(folder / "cats");
  spit(folder / "cats/one.pgm", "P5 2 1 255\nab");
  spit(folder / "cats/no.txt", "nothing to see");
  spit(folder / "two.ppm", "P6 1 1 255\nabc");
  s = read_pictures(folder.path, {.count = 9});
  REQUIRE(s.pictures.size() == 2);
  CHECK(s.pictures[0].label == "cats");
  CHECK(s.pictures[1].label == "two.ppm");
  REQUIRE(s.refused.size() == 1);
  CHECK(mentions(s.refused[0], "no.txt"));
  data::write_npy(folder / "a.npy", zeros({4, 5, 6, 3}, {.dtype = DType::u8}));
  CHECK(read_pictures(folder / "a.npy", {.count = 9}).pictures[0].pixels.shape() == Shape{3, 5, 6});

  CHECK(mentions(message_of([&] { (void)read_pictures(folder / "cats/no.txt", {.count = 1}); }),
                 "it begins with"));
  const TempDir empty_folder;
  CHECK(mentions(message_of([&] { (void)read_pictures(empty_folder.path, {.count = 1}); }),
                 "no image among its 0 files"));
}

TEST_CASE("a sheet has every picture in its cell, and the page its labels", "[data]") {
  // Two cells of two parts: a small grey picture, enlarged, and a large one in colours, resized.
  const std::vector<SheetCell> cells{{"x", {flat(1, 4, 4, 10).pixels, flat(1, 4, 4, 20).pixels}},
                                     {"a <b>", {flat(3, 40, 20, 30).pixels}}};
  const Tensor sheet = contact_sheet(cells, 16);
  CHECK(sheet.shape() == Shape{24, 2 * (33 + 4) + 4, 3});
  CHECK(pixel(sheet, 0, 0) == std::vector<u8>{246, 246, 246});
  CHECK(pixel(sheet, 4, 4) == std::vector<u8>{10, 10, 10});
  CHECK(pixel(sheet, 19, 19) == std::vector<u8>{10, 10, 10});
  CHECK(pixel(sheet, 4, 21) == std::vector<u8>{20, 20, 20});
  CHECK(pixel(sheet, 10, 41 + 8) == std::vector<u8>{30, 30, 30});
  CHECK(pixel(sheet, 10, 41 + 2) == std::vector<u8>{246, 246, 246});  // half as wide as high
  CHECK_THROWS_AS(contact_sheet({}, 16), UsageError);
  NEEDS_SPNG();
  const std::string page = contact_page("a & b", {"note"}, cells, 16);
  CHECK(mentions(page, "<h1>a &amp; b</h1><p>note</p>"));
  CHECK(mentions(page, "a &lt;b&gt;"));
  CHECK(mentions(page, "src=\"data:image/png;base64,iVBORw0KGgo"));
  CHECK(page.find("<b>") == page.npos);
}

TEST_CASE("png_of: what is written is read again, of one to four channels", "[data]") {
  NEEDS_SPNG();
  const TempDir dir;
  for (const i64 c : {1, 2, 3, 4}) {
    std::vector<u8> v;
    for (i64 i = 0; i < 7 * 5 * c; ++i) v.push_back(u8(i * 37));
    const Tensor image = tensor(v).reshape({7, 5, c});
    data::write_png(dir / "a.png", image);
    const Tensor back = data::read_image(dir / "a.png");
    CHECK(back.shape() == image.shape());
    CHECK(back.to_vector<u8>() == v);
  }
  CHECK_THROWS_AS(data::png_of(zeros({2, 2})), ShapeError);
  CHECK_THROWS_AS(data::png_of(zeros({2, 2, 3})), DtypeError);
  CHECK_THROWS_AS(data::png_of(zeros({0, 2, 3}, {.dtype = DType::u8})), ShapeError);
}
