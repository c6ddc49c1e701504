// The .transform of the sets of images.
#include "warptape/data/image_transform.h"

#include "warptape/data/cifar.h"
#include "warptape/data/combine.h"
#include "warptape/data/image_folder.h"
#include "warptape/data/loader.h"
#include "warptape/data/resident.h"
#include "warptape/data/transforms.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/tiny_data.h"

using namespace wt;
using namespace wt::data;

namespace {

const Compose& augment() {
  static const Compose all{RandomCrop{24, 2}, RandomHorizontalFlip{}, ToTensor{},
                           Normalize{{0.5}, {0.25}}};
  return all;
}

void write_cifar100(const std::string& folder, int n) {
  std::string records;
  for (int i = 0; i < n; ++i) {
    records += {char(i % 20), char(i % 100)};
    for (int p = 0; p < 3072; ++p) records += char(p * (i + 3) % 251);
  }
  spit(folder + "/train.bin", records);
}

// x of each of two epochs, y of the first.
struct Epochs {
  std::vector<float> x[2];
  std::vector<i64> y;
  bool operator==(const Epochs&) const = default;
};
template <class D>
Epochs epochs_of(const D& set, const LoaderOptions& o) {
  Loader loader(set, o);
  Epochs seen;
  for (int e = 0; e < 2; ++e)
    for (auto& [x, y] : loader) {
      for (const float v : x.template to_vector<float>()) seen.x[e].push_back(v);
      if (e > 0) continue;
      for (const i64 v : y.template to_vector<i64>()) seen.y.push_back(v);
    }
  return seen;
}

// `pixels` are those of the set's file, u8 [N, C, H, W]; `make` the set with a transform and a
// seed.
template <class Make>
void check_set(const Tensor& pixels, const Make& make) {
  const auto plain = make(ImageTransform{}, 0);
  const auto set = make(augment(), 7);
  const i64 n = set.size();
  REQUIRE(n == pixels.size(0));
  // What Compose gives of the file's own pixels, not of standardised ones.
  std::vector<i64> all;
  for (i64 i = 0; i < n; ++i) all.push_back(n - 1 - i);
  std::vector<Tensor> rows;
  for (const i64 epoch : {0, 3}) {
    const Batch b = set.batch(all, epoch);
    CHECK(b.x.shape() == Shape{n, pixels.size(1), 24, 24});
    CHECK(b.y.to_vector<i64>() == plain.batch(all).y.template to_vector<i64>());
    for (i64 i = 0; i < n; ++i) {
      const i64 sample[] = {all[size_t(i)]};
      const Tensor want =
          augment()(pixels.narrow(0, sample[0], 1), {.samples = sample, .epoch = epoch, .seed = 7});
      REQUIRE(b.x.narrow(0, i, 1).contiguous().to_vector<float>() == want.to_vector<float>());
    }
  }
  // Other ones each epoch and for another seed, the same for any number of workers.
  const LoaderOptions o{.batch = 4, .shuffle = true, .seed = 2};
  const Epochs want = epochs_of(set, o);
  CHECK(want.x[0] != want.x[1]);
  CHECK(epochs_of(make(augment(), 8), o).x[0] != want.x[0]);
  for (const int workers : {1, 3}) {
    LoaderOptions more = o;
    more.workers = workers;
    CHECK(epochs_of(set, more) == want);
  }
  // Work for workers, where copies are none.
  CHECK(set.in_memory() == false);
  CHECK(plain.in_memory());
  CHECK_THROWS_AS(set.batch(std::vector<i64>{n}), IndexError);
  // Through sets of sets the epoch comes along.
  const Subset<std::decay_t<decltype(set)>> part(set, {2, 1});
  const i64 first[] = {0}, second[] = {2};
  CHECK(part.batch(first, 5).x.template to_vector<float>() ==
        set.batch(second, 5).x.template to_vector<float>());
}

}  // namespace

TEST_CASE(
    "image transform: Cifar10, Cifar100 and FashionMnist give what a Compose of their pixels "
    "does") {
  const TempDir dir;
  wt_test::write_tiny_cifar(dir, 9);
  wt_test::write_tiny_fashion(dir, 11, 3);
  write_cifar100(dir.path, 6);
  // The pixels, from the sets' own standardised values.
  const auto pixels = [](const auto& set) {
    std::vector<i64> all;
    for (i64 i = 0; i < set.size(); ++i) all.push_back(i);
    return set.batch(all).x;
  };
  const Compose raw{CenterCrop{32}}, small{CenterCrop{28}};
  const auto levels = [&](const auto& set) { return pixels(set).to(DType::u8); };
  SECTION("Cifar10") {
    check_set(levels(Cifar10(dir.path, {.transform = raw})),
              [&](const ImageTransform& t, u64 seed) {
                return Cifar10(dir.path, {.transform = t, .seed = seed});
              });
    const Cifar10 plain(dir.path);
    const Tensor seen = levels(Cifar10(dir.path, {.transform = raw}));
    CHECK(Cifar10::prepare(seen).to_vector<float>() == pixels(plain).to_vector<float>());
  }
  SECTION("Cifar100") {
    check_set(levels(Cifar100(dir.path, {.transform = raw})),
              [&](const ImageTransform& t, u64 seed) {
                return Cifar100(dir.path, {.transform = t, .seed = seed});
              });
    const Tensor seen = levels(Cifar100(dir.path, {.transform = raw}));
    CHECK(Cifar100::prepare(seen).to_vector<float>() ==
          pixels(Cifar100(dir.path)).to_vector<float>());
  }
  SECTION("FashionMnist") {
    check_set(levels(FashionMnist(dir.path, {.transform = small})),
              [&](const ImageTransform& t, u64 seed) {
                return FashionMnist(dir.path, {.transform = t, .seed = seed});
              });
    const Tensor seen = levels(FashionMnist(dir.path, {.transform = small}));
    CHECK(FashionMnist::prepare(seen).to_vector<float>() ==
          pixels(FashionMnist(dir.path)).to_vector<float>());
  }
}

TEST_CASE("image transform: a list, a Compose or none, flat, and the type of x") {
  const TempDir dir;
  wt_test::write_tiny_cifar(dir, 3);
  const i64 one[] = {1};
  const Cifar10 list(dir.path, {.flatten = true, .transform = {RandomCrop{8, 2}, ToTensor{}}}),
      composed(dir.path, {.flatten = true, .transform = Compose{RandomCrop{8, 2}, ToTensor{}}}),
      none(dir.path, {.transform = {}});
  CHECK(list.batch(one, 2).x.shape() == Shape{1, 3 * 8 * 8});
  CHECK(list.batch(one, 2).x.to_vector<float>() == composed.batch(one, 2).x.to_vector<float>());
  CHECK(none.batch(one, 2).x.to_vector<float>() ==
        Cifar10(dir.path).batch(one).x.to_vector<float>());
  CHECK(list.batch({}).x.shape() == Shape{0, 3 * 8 * 8});
  CHECK(list.batch(one).x.dtype() == DType::f32);
  std::filesystem::create_directories(dir / "zoo/cat");
  spit(dir / "zoo/cat/1.ppm", "P3 2 1 255 9 9 9 0 0 0");
  const ImageFolder zoo(dir / "zoo", {.transform = Compose{CenterCrop{1}, ToTensor{}}});
  const i64 cat[] = {0};
  CHECK(zoo.batch(cat).x.shape() == Shape{1, 3, 1, 1});
}

TEST_CASE("image transform: what does not fit is refused when the set is made, and on a device") {
  const TempDir dir;
  wt_test::write_tiny_cifar(dir, 3);
  wt_test::write_tiny_fashion(dir, 3, 1);
  const Normalize colours{{0.1, 0.2, 0.3}, {1, 1, 1}};
  CHECK(mentions(message_of([&] {
                   FashionMnist(dir.path, {.transform = {ToTensor{}, colours}});
                 }),
                 "Normalize has 3 means, the images have 1 channels"));
  CHECK_THROWS_AS(Cifar10(dir.path, {.transform = {RandomCrop{40}}}), ShapeError);
  CHECK(mentions(message_of([&] {
                   Cifar10(dir.path, {.transform = {ToTensor{}, RandomCrop{8}}});
                 }),
                 "RandomCrop(8) comes after ToTensor"));
  const std::string resident = message_of(
      [&] { (void)Cifar10(dir.path, {.transform = augment()}).resident(Device::cpu()); });
  CHECK(mentions(resident,
                 "UsageError: [Cifar10::resident] the set has a transform, "
                 "Compose(RandomCrop(24, padding=2), RandomHorizontalFlip(0.5), ToTensor"));
  CHECK(mentions(resident, "Try ResidentImagesOptions"));
  CHECK(mentions(message_of([&] {
                   (void)FashionMnist(dir.path, {.transform = augment()}).resident(Device::cpu());
                 }),
                 "[FashionMnist::resident] the set has a transform"));
}
