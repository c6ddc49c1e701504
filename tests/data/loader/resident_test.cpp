// Datasets that stay on the device: the batches of a Loader over the same samples, on every device.
#include "warptape/data/resident.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory_limit.h"
#include "warptape/data/cifar.h"
#include "warptape/data/plan.h"
#include "warptape/data/resident_loader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/tiny_data.h"

using namespace wt;
using namespace wt::data;

namespace {

struct Seen {
  std::vector<std::vector<float>> x;
  std::vector<std::vector<i64>> y;
  friend bool operator==(const Seen&, const Seen&) = default;
};

// Two epochs.
template <class L>
Seen all_of(L loader) {
  Seen seen;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto& [x, y] : loader) {
      seen.x.push_back(x.template to_vector<float>());
      seen.y.push_back(y.template to_vector<i64>());
    }
  return seen;
}

Tensor some_images(i64 n, i64 channels, i64 height, i64 width) {
  std::vector<u8> v(size_t(n * channels * height * width));
  wt_test::TinyNoise noise;
  for (u8& p : v) p = u8(noise.next());
  return tensor(v, {.device = Device::cpu()}).view({n, channels, height, width});
}
Tensor some_labels(i64 n) {
  std::vector<i64> v;
  for (i64 i = 0; i < n; ++i) v.push_back(i * 7 % 10);
  return tensor(v, {.device = Device::cpu()});
}

}  // namespace

TEST_CASE(
    "resident images: the bits of a Loader's batches, by place and by list, on every device") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 53, 7);
  wt_test::write_tiny_cifar(dir, 9);
  const FashionMnist fashion(dir.path), flat(dir.path, {.flatten = true});
  const Cifar10 cifar(dir.path);
  for (const Device d : wt_test::kernel_devices())
    for (const LoaderOptions& o : {LoaderOptions{.batch = 8, .shuffle = true, .seed = 3},
                                   {.batch = 8, .shuffle = true, .seed = 4, .drop_last = true},
                                   {.batch = 10},
                                   {.batch = 100, .shuffle = true, .seed = 1}}) {
      CAPTURE(to_string(d), o.batch, o.drop_last);
      const Seen want = all_of(Loader{fashion, o});
      CHECK(all_of(ResidentLoader{fashion.resident(d), o}) == want);
      CHECK(all_of(Loader{fashion.resident(d), o}) == want);
      CHECK(all_of(ResidentLoader{flat.resident(d), o}) == want);
      CHECK(all_of(ResidentLoader{cifar.resident(d), o}) == all_of(Loader{cifar, o}));
    }
  CHECK(flat.resident(Device::cpu()).batch_at({.count = 3}).x.shape() == Shape{3, 784});
  CHECK(fashion.resident(Device::cpu()).bytes() == 53 * (784 + 8));
}

TEST_CASE("resident images: types, memory formats, and images of any strides") {
  const Tensor images = some_images(6, 3, 5, 4), labels = some_labels(6);
  const Tensor last = images.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  REQUIRE(!last.is_contiguous());
  const ResidentImagesOptions o{.mean = {0.1f, 0.2f, 0.3f}, .std = {0.5f, 0.6f, 0.7f}};
  const BatchAt at{.shuffle = true, .seed = 2, .place = 1, .count = 5};
  const Batch want = ResidentImages(images, labels, Device::cpu(), o).batch_at(at);
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    CHECK(ResidentImages(last, labels.to(DType::u8), d, o).batch_at(at).x.to_vector<float>() ==
          want.x.to_vector<float>());
    CHECK(ResidentImages(images.to(d), labels.to(d), d, o).batch_at(at).y.to_vector<i64>() ==
          want.y.to_vector<i64>());
    for (const DType t : {DType::f16, DType::bf16}) {
      ResidentImagesOptions half = o;
      half.dtype = t;
      half.format = MemoryFormat::channels_last;
      const Tensor x = ResidentImages(images, labels, d, half).batch_at(at).x;
      CHECK(x.dtype() == t);
      CHECK(x.is_contiguous(MemoryFormat::channels_last));
      CHECK(x.to_vector<float>() == want.x.to(t).to_vector<float>());
    }
  }
}

TEST_CASE("resident images: a crop and a flip are the same on every device, new ones each epoch") {
  const Tensor images = some_images(20, 3, 8, 8), labels = some_labels(20);
  const ResidentImagesOptions o{.augment = {.padding = 2, .random_crop = true, .mirror = 0.5f}};
  const auto seen = [&](Device d) {
    return all_of(ResidentLoader{ResidentImages(images, labels, d, o), {.batch = 20}});
  };
  const Seen want = seen(Device::cpu());
  CHECK(want.x[0] != want.x[1]);
  CHECK(want.y[0] == want.y[1]);
  for (const Device d : wt_test::kernel_devices()) CHECK(seen(d) == want);
}

TEST_CASE("resident images: what is refused, before anything is copied") {
  const Device cpu = Device::cpu();
  const Tensor images = some_images(4, 1, 3, 3), labels = some_labels(4);
  const auto error = [&](const Tensor& x, const Tensor& y, ResidentImagesOptions o = {}) {
    return message_of([&] { ResidentImages(x, y, cpu, o); });
  };
  CHECK(mentions(error(images.view({4, 9}), labels), "expected images [N, C, H, W]"));
  CHECK(mentions(error(images.to(DType::f32), labels), "images must be u8, got f32"));
  CHECK(mentions(error(images, some_labels(5)), "expected 4 labels"));
  CHECK(mentions(error(images, labels.to(DType::f32)), "labels must be u8, i32 or i64, got f32"));
  CHECK(mentions(error(images, labels, {.classes = 7}), "label 7 of image 1 is outside [0, 7)"));
  CHECK(mentions(error(images, tensor({0, 1, -1, 0})), "label -1 of image 2"));
  CHECK(mentions(error(images, labels, {.mean = {1, 2}}), "mean has 2 numbers"));
  CHECK(mentions(error(images, labels, {.std = {0}}), "std must be positive"));
  CHECK(mentions(error(images, labels, {.dtype = DType::f64}), "f32, f16 or bf16, got f64"));
  CHECK(mentions(error(images, labels, {.height = 9}), "larger than the padded image"));
  CHECK(mentions(error(images, labels, {.format = MemoryFormat::channels_last, .flatten = true}),
                 "flatten"));
  const ResidentImages set(images, labels, cpu);
  const i64 outside[] = {0, 4};
  CHECK_THROWS_AS(set.batch(outside), IndexError);
  CHECK_THROWS_AS(set.batch_at({.place = 2, .count = 3}), IndexError);
  CHECK_THROWS_AS(set.batch_at({.count = 1, .cursor = tensor({1.0, 2.0})}), UsageError);
  // A cursor beyond the epoch's end stays inside of the set.
  for (const bool shuffle : {false, true})
    CHECK(set.batch_at({.shuffle = shuffle, .count = 4, .cursor = tensor({7, 1'000'001})})
              .y.size(0) == 4);
}

TEST_CASE("resident images: what does not fit is refused with what to do instead") {
  const Tensor images = some_images(100, 1, 28, 28), labels = some_labels(100);
  const Device d = Device::simt();
  const memory::LimitScope little(d, memory::stats(d).live + 50000);
  const std::string m = message_of([&] { ResidentImages(images, labels, d); });
  CAPTURE(m);
  CHECK(mentions(m, "[ResidentImages] the data has 76 KiB, and simt has 48 KiB free"));
  CHECK(mentions(m, "Try a data::Loader"));
  CHECK_THROWS_AS(ResidentImages(images, labels, d), OutOfMemory);
}

TEST_CASE("resident loader: positions, empty sets, options that make no sense") {
  const ResidentImages set(some_images(21, 1, 2, 2), some_labels(21), Device::cpu());
  const LoaderOptions o{.batch = 4, .shuffle = true, .seed = 8};
  ResidentLoader a{set, o}, b{set, o};
  CHECK(a.size() == 6);
  Batch batch, other;
  for (int i = 0; i < 9; ++i) (void)a.next(batch);  // one of them ends an epoch
  CHECK(a.state() == LoaderState{1, 2, 21});
  b.set_state(a.state());
  while (a.next(batch)) {
    const Batch again = b.batch_after(b.state());
    REQUIRE(b.next(other));
    CHECK(batch.x.to_vector<float>() == other.x.to_vector<float>());
    CHECK(again.x.to_vector<float>() == other.x.to_vector<float>());
  }
  CHECK(!b.next(other));
  CHECK_THROWS_AS(b.set_state({0, 7}), UsageError);
  CHECK_THROWS_AS(b.set_state({-1, 0}), UsageError);
  CHECK_THROWS_AS(b.set_state({0, 1, 20}), UsageError);
  const auto error = [&](const ResidentImages& s, const LoaderOptions& options) {
    return message_of([&] { ResidentLoader(s, options); });
  };
  const ResidentImages none(some_images(0, 1, 2, 2), some_labels(0), Device::cpu());
  CHECK(mentions(error(none, {}), "the dataset is empty"));
  CHECK(mentions(error(set, {.batch = 0}), "the batch must be at least 1"));
  CHECK(mentions(error(set, {.batch = 22, .drop_last = true}), "drop_last leaves nothing"));
  CHECK(mentions(error(set, {.sampler = [](i64) { return std::vector<i64>{0}; }}), "a sampler"));
}

TEST_CASE("resident tokens: the batches of TextBytes, of every type of token, on every device") {
  std::vector<u8> text;
  wt_test::TinyNoise noise;
  for (int i = 0; i < 200; ++i) text.push_back(u8(noise.next()));
  const Tensor tokens = tensor(text, {.device = Device::cpu()});
  for (const Device d : wt_test::kernel_devices())
    for (const DType t : {DType::u8, DType::u16, DType::i32, DType::i64})
      for (const bool every : {true, false})
        for (const i64 stride : {1, 7}) {
          CAPTURE(to_string(d), dtype_name(t), every, stride);
          const LoaderOptions o{.batch = 9, .shuffle = true, .seed = 5};
          const TextBytes host(text, {.context = 12, .stride = stride, .every_position = every});
          const ResidentTokens set(tokens.to(t), d,
                                   {.context = 12, .stride = stride, .every_position = every});
          REQUIRE(set.size() == host.size());
          const Seen want = all_of(Loader{host, o});
          CHECK(all_of(ResidentLoader{set, o}) == want);
          CHECK(all_of(Loader{set, o}) == want);
        }
  const auto error = [&](const Tensor& x, const ResidentTokensOptions& o) {
    return message_of([&] { ResidentTokens(x, Device::cpu(), o); });
  };
  CHECK(mentions(error(tokens.view({2, 100}), {}), "expected tokens [n]"));
  CHECK(mentions(error(tokens.to(DType::f32), {}), "u8, u16, i32 or i64, got f32"));
  CHECK(mentions(error(tokens, {.context = 200}), "200 tokens are too few"));
  CHECK(mentions(error(tokens, {.stride = 0}), "must be at least 1"));
}

TEST_CASE("trap T28: each step draws a new subset of the points, and over steps all are seen",
          "[trap]") {
  // Point i is (i, -i, 2 i).
  constexpr i64 n = 1000;
  std::vector<float> v;
  for (i64 i = 0; i < n; ++i)
    for (const i64 p : {i, -i, 2 * i}) v.push_back(float(p));
  const Tensor x = tensor(v, {.device = Device::cpu()}).view({n, 3}),
               y = arange(n, {.device = Device::cpu()});
  std::vector<std::vector<i64>> first;
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const ResidentPoints set(x, y, d, {.ratio = 0.1});
    CHECK(set.points() == 100);
    ResidentLoader loader{set, {.batch = 1, .seed = 6}};
    std::vector<std::vector<i64>> steps;
    std::set<i64> seen;
    for (int step = 0; step < 80; ++step) {
      Batch b;
      if (!loader.next(b)) REQUIRE(loader.next(b));
      REQUIRE(b.x.shape() == Shape{100, 3});
      const std::vector<i64> points = b.y.to_vector<i64>();
      const std::vector<float> at = b.x.to_vector<float>();
      for (size_t j = 0; j < points.size(); ++j) {
        REQUIRE(at[3 * j] == float(points[j]));
        REQUIRE(at[3 * j + 2] == float(2 * points[j]));
      }
      REQUIRE(std::set<i64>(points.begin(), points.end()).size() == 100);  // no duplicates
      seen.insert(points.begin(), points.end());
      if (!steps.empty()) REQUIRE(points != steps.back());
      steps.push_back(points);
    }
    CHECK(seen.size() >= n - 3);  // of a point the chance to be missed 80 times is 2e-4
    if (first.empty()) first = steps;
    CHECK(steps == first);
  }
}

TEST_CASE("resident points: of several clouds each has its own subset; values go with the points") {
  const Tensor x = arange(4 * 50 * 2, {.dtype = f32, .device = Device::cpu()}).view({4, 50, 2});
  const Tensor each = arange(4 * 50, {.dtype = f32, .device = Device::cpu()}).view({4, 50, 1});
  const Tensor cloud = arange(4, {.device = Device::cpu()});
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const ResidentPoints set(x, each, d, {.points = 7});
    const Batch b = set.batch_at({.shuffle = true, .seed = 1, .count = 3});
    REQUIRE(b.x.shape() == Shape{3, 7, 2});
    REQUIRE(b.y.shape() == Shape{3, 7, 1});
    const std::vector<float> at = b.x.to_vector<float>(), value = b.y.to_vector<float>();
    std::set<std::vector<float>> subsets;
    for (size_t i = 0; i < 3; ++i) {
      std::vector<float> within;
      for (size_t j = 0; j < 7; ++j) {
        CHECK(at[2 * (7 * i + j)] == 2 * value[7 * i + j]);
        within.push_back(float(i64(value[7 * i + j]) % 50));
      }
      subsets.insert(within);
    }
    CHECK(subsets.size() == 3);
    const Batch labelled = ResidentPoints(x, cloud, d, {.points = 7}).batch_at({.count = 4});
    CHECK(labelled.y.to_vector<i64>() == std::vector<i64>{0, 1, 2, 3});
    const Batch alone = ResidentPoints(x, {}, d, {.points = 50}).batch_at({.count = 1});
    CHECK(alone.y.same_as(alone.x));
    std::vector<float> sorted = alone.x.to_vector<float>();
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == arange(100, {.dtype = f32}).to_vector<float>());
  }
  const auto error = [&](const Tensor& t, const Tensor& y, const ResidentPointsOptions& o) {
    return message_of([&] { ResidentPoints(t, y, Device::cpu(), o); });
  };
  CHECK(mentions(error(cloud, {}, {}), "expected points [N, D] or [S, N, D]"));
  CHECK(mentions(error(x, arange(5), {}), "a value for each point or each cloud"));
  CHECK(mentions(error(x, {}, {.ratio = 0}), "the ratio must be in (0, 1]"));
  CHECK(mentions(error(x, {}, {.points = 51}), "51 of 50 points without replacement"));
}

TEST_CASE("tensor datasets stay on their device, rows of any size, by list and by place") {
  const Tensor bytes = some_images(23, 1, 1, 3).view({23, 3});  // rows of 3, 6, 12 bytes
  for (const Device d : wt_test::kernel_devices())
    for (const DType t : {DType::u8, DType::f16, DType::f32, DType::f64}) {
      CAPTURE(to_string(d), dtype_name(t));
      const LoaderOptions o{.batch = 5, .shuffle = true, .seed = 2};
      const Tensor x = bytes.to(t), y = some_labels(23);
      const Seen want = all_of(Loader{TensorDataset(x, y), o});
      const TensorDataset there(x.to(d), y.to(d));
      CHECK(all_of(Loader{there, o}) == want);
      CHECK(all_of(ResidentLoader{there, o}) == want);
      const i64 rows[] = {3, 1};
      CHECK(there.batch(rows).x.device() == d);
      const TensorsDataset three{x.to(d), y.to(d), x.to(d)};
      CHECK(three.batch(rows)[1].device() == d);
      CHECK(three.batch(rows)[1].to_vector<i64>() == std::vector<i64>{1, 7});
      // Not contiguous, and rows of 16 bytes and more.
      const Tensor wide = there.batch(rows).x.view({2, 3, 1}).permute({1, 0, 2});
      const TensorDataset turned(wide, wide);
      CHECK(turned.batch(std::vector<i64>{2}).x.to_vector<float>() ==
            std::vector<float>{want.x.empty() ? 0 : bytes.to_vector<float>()[11],
                               bytes.to_vector<float>()[5]});
      const TensorDataset large(x.to(d).reshape({1, 69}), y.to(d).reshape({1, 23}));
      CHECK(large.batch_at({.count = 1}).x.to_vector<float>() == bytes.to_vector<float>());
      const TensorDataset nothing(zeros({4, 0}, {.device = d}), zeros({4}, {.device = d}));
      CHECK(nothing.batch_at({.count = 4}).x.shape() == Shape{4, 0});
    }
}

TEST_CASE("plan: the nearest tier that has room, and why") {
  constexpr i64 GiB = i64{1} << 30;
  const Capacity there{.device = 80 * GiB, .host = 100 * GiB, .device_name = "cuda:0"};
  CHECK(plan(0, there).tier == Tier::device);
  CHECK(plan(40 * GiB, there).tier == Tier::device);
  CHECK(plan(40 * GiB + 1, there).tier == Tier::pinned);
  CHECK(plan(50 * GiB + 1, there).tier == Tier::streaming);
  CHECK(plan(50 * GiB + 1, there, {.plain_file = true}).tier == Tier::mapped);
  CHECK(plan(79 * GiB, there, {.device_part = 1}).tier == Tier::device);
  CHECK(plan(GiB, {.device = -1, .host = 3 * GiB}).tier == Tier::pinned);
  CHECK(plan(GiB, {.device = 0, .host = -1}).tier == Tier::pinned);
  CHECK(plan(GiB, there).why == "1024 MiB are at most 50 % of the 80 GiB free on cuda:0");
  CHECK(mentions(plan(60 * GiB, there).why, "60 GiB are more than 50 % of the 80 GiB free"));
  CHECK(mentions(plan(60 * GiB, there).why, "read again each epoch"));
  CHECK_THROWS_AS(plan(-1, there), UsageError);
  CHECK_THROWS_AS(plan(1, there, {.device_part = 0}), UsageError);
  CHECK_THROWS_AS(plan(1, there, {.host_part = 1.5}), UsageError);
  const Device simt = Device::simt();
  const memory::LimitScope limit(simt, memory::stats(simt).live + 1000);
  CHECK(capacity_of(simt).device == 1000);
  CHECK(plan(600, simt).tier == Tier::pinned);
  CHECK(std::string(tier_name(Tier::mapped)) == "mapped");
}
