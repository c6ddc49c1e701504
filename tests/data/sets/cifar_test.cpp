// CIFAR-10's binary files, right and damaged.
#include "warptape/data/cifar.h"

#include <cmath>

#include "warptape/config.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using namespace wt;
using namespace wt::data;

namespace {

// A record whose pixel p of channel c is (label + 2 p + 50 c) % 256.
std::string record(int label) {
  std::string r(1, char(label));
  for (int c = 0; c < 3; ++c)
    for (int p = 0; p < 1024; ++p) r += char(label + 2 * p + 50 * c);
  return r;
}

void write_set(const std::string& folder) {
  for (int i = 1; i <= 5; ++i)
    spit(folder + "/data_batch_" + std::to_string(i) + ".bin", record(i) + record(9 - i));
  spit(folder + "/test_batch.bin", record(0) + record(9) + record(3));
}

}  // namespace

TEST_CASE("cifar: planes, labels, standardised values, in the given order") {
  const TempDir dir;
  write_set(dir.path);
  const Cifar10 train(dir.path), test(dir.path, {.train = false, .flatten = true});
  REQUIRE(train.size() == 10);
  REQUIRE(test.size() == 3);
  const i64 pick[] = {9, 0, 0};
  const Batch b = train.batch(pick);
  CHECK(b.x.shape() == Shape{3, 3, 32, 32});
  CHECK(b.y.to_vector<i64>() == std::vector<i64>{4, 1, 1});
  const auto x = b.x.to_vector<float>();
  const double mean[] = {0.4914, 0.4822, 0.4465}, deviation[] = {0.2470, 0.2435, 0.2616};
  for (int c = 0; c < 3; ++c)
    for (int p = 0; p < 1024; ++p) {
      const double byte = (4 + 2 * p + 50 * c) % 256;
      REQUIRE(std::abs(x[size_t(c * 1024 + p)] - (byte / 255 - mean[c]) / deviation[c]) < 1e-5);
    }
  const i64 last[] = {2};
  CHECK(test.batch(last).x.shape() == Shape{1, 3072});
  CHECK(Cifar10::bytes_of(dir.path) == 10 * 3073);
  CHECK(std::string(Cifar10::class_names()[9]) == "truck");
  const i64 outside[] = {3};
  CHECK_THROWS_AS(test.batch(outside), IndexError);
}

TEST_CASE("cifar: the folder of the official archive is found") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "cifar-10-batches-bin");
  write_set(dir / "cifar-10-batches-bin");
  CHECK(Cifar10(dir.path, {.train = false}).size() == 3);
}

TEST_CASE("cifar: one bad file among good ones is named with its byte") {
  const TempDir dir;
  CHECK(mentions(message_of([] { Cifar10("/no/such/folder"); }), "no such folder"));
  CHECK(mentions(message_of([&] { Cifar10(dir.path); }), "data_batch_1.bin"));
  spit(dir / "test_batch.bin.xz", "");
  CHECK(mentions(message_of([&] { Cifar10(dir.path, {.train = false}); }),
                 "test_batch.bin.xz: at byte 0: CIFAR-10 records have 3073 bytes, the file has 0"));
  write_set(dir.path);
  const std::string bad = dir / "data_batch_3.bin";
  spit(bad, record(1) + record(2).substr(0, 3000));
  const std::string cut = message_of([&] { Cifar10(dir.path); });
  CHECK(mentions(cut, bad + ": at byte 3073: CIFAR-10 records have 3073 bytes, the file has 6073"));
  spit(bad, "");
  CHECK(mentions(message_of([&] { Cifar10(dir.path); }), "the file has 0"));
  spit(bad, record(1) + record(10));
  CHECK(mentions(message_of([&] { Cifar10(dir.path); }),
                 bad + ": at byte 3073: label 10 is outside [0, 10)"));
  CHECK(mentions(message_of([&] { (void)read_cifar10(bad, {.max_bytes = 100}); }),
                 "the limit is 100"));
  std::filesystem::remove(bad);
  std::filesystem::create_symlink("data_batch_3.bin", bad);  // to itself
  CHECK(mentions(message_of([&] { Cifar10(dir.path); }), "DataError: " + bad + ": cannot be read"));
  std::filesystem::remove(bad);
  spit(bad, record(7));
  const CifarFile f = read_cifar10(bad);
  CHECK(f.images.shape() == Shape{1, 3, 32, 32});
  CHECK(f.images.to_vector<u8>()[1025] == 7 + 2 + 50);
  CHECK(f.labels.to_vector<u8>() == std::vector<u8>{7});
}

TEST_CASE("cifar: CIFAR-100 has a superclass and a class before the pixels") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "cifar-100-binary");
  const std::string folder = dir / "cifar-100-binary/";
  const auto record100 = [](int coarse, int fine) {
    return std::string(1, char(coarse)) + char(fine) + record(fine).substr(1);
  };
  spit(folder + "train.bin", record100(19, 99) + record100(0, 7));
  spit(folder + "test.bin", record100(4, 0));
  const Cifar100 fine(dir.path), coarse(dir.path, {.coarse = true});
  REQUIRE(fine.size() == 2);
  const i64 both[] = {1, 0};
  CHECK(fine.batch(both).y.to_vector<i64>() == std::vector<i64>{7, 99});
  CHECK(coarse.batch(both).y.to_vector<i64>() == std::vector<i64>{0, 19});
  const auto x = fine.batch(both).x.to_vector<float>();
  CHECK(std::abs(x[1025] - ((7 + 2 + 50) / 255.0 - 0.4865) / 0.2564) < 1e-5);
  CHECK(Cifar100(dir.path, {.train = false, .flatten = true}).batch({both + 1, 1}).x.shape() ==
        Shape{1, 3072});
  CHECK(Cifar100::bytes_of(dir.path) == 2 * 3074);
  CHECK(std::string(Cifar100::class_names()[99]) == "worm");
  CHECK(std::string(Cifar100::coarse_names()[19]) == "vehicles_2");
  const Cifar100File f = read_cifar100(folder + "train.bin");
  CHECK(f.images.shape() == Shape{2, 3, 32, 32});
  CHECK(f.coarse.to_vector<u8>() == std::vector<u8>{19, 0});
  CHECK(f.fine.to_vector<u8>() == std::vector<u8>{99, 7});
  const auto refusal = [&] { return message_of([&] { (void)read_cifar100(folder + "bad"); }); };
  spit(folder + "bad", record100(0, 1) + record100(20, 1));
  CHECK(mentions(refusal(), "at byte 3074: label 20 is outside [0, 20)"));
  spit(folder + "bad", record100(0, 100));
  CHECK(mentions(refusal(), "at byte 1: label 100 is outside [0, 100)"));
  spit(folder + "bad", record100(0, 1) + "x");
  CHECK(mentions(refusal(), "at byte 3074: CIFAR-100 records have 3074 bytes, the file has 3075"));
  FuzzPlan plan(300, 29);
  const std::string golden = slurp(folder + "train.bin");
  long long accepted = 0;
  for (long long i = 0; i < plan.cases; ++i) {
    std::string text = mutated(golden, plan.random, {"\x14", "\x64", "\xff"});
    if (plan.random() % 2) text.resize((text.size() + 1537) / 3074 * 3074);
    accepted += wt_test::takes_cifar100(text);
  }
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases);
}

TEST_CASE("cifar: all of CIFAR-10, packed by xz") {
  const std::string root = test_data("cifar10");
  if (root.empty()) SKIP_TEST("no cifar10 in WT_TEST_DATA or shared/data");
  if (!WARPTAPE_HAS_LZMA) SKIP_TEST("this build has no liblzma");
  std::vector<i64> bytes[3];  // how often a channel has each value
  for (auto& counts : bytes) counts.resize(256);
  for (const bool train : {true, false}) {
    if (train && !wt_test::whole_walk()) continue;  // five more files of the same kind
    std::vector<i64> labels(10);
    i64 images = 0;
    for (int i = 1; i <= (train ? 5 : 1); ++i) {
      const CifarFile f =
          read_cifar10(root + (train ? str("/data_batch_", i, ".bin.xz") : "/test_batch.bin.xz"));
      images += f.images.size(0);
      for (const u8 label : f.labels.to_vector<u8>()) ++labels[label];
      if (!train) continue;
      const u8* p = f.images.data<u8>();
      for (i64 k = 0; k < f.images.numel(); k += 1024) {
        i64* const counts = bytes[k / 1024 % 3].data();
        for (const u8* const end = p + 1024; p < end; ++p) ++counts[*p];
      }
    }
    CHECK(images == (train ? 50'000 : 10'000));
    CHECK(labels == std::vector<i64>(10, train ? 5000 : 1000));
  }
  const double mean[] = {0.4914, 0.4822, 0.4465}, deviation[] = {0.2470, 0.2435, 0.2616};
  for (int c = 0; c < 3 && wt_test::whole_walk(); ++c) {
    double sum = 0, squares = 0;
    for (int v = 0; v < 256; ++v) {
      sum += double(bytes[c][size_t(v)]) * v / 255;
      squares += double(bytes[c][size_t(v)]) * v * v / (255.0 * 255);
    }
    const double n = 50'000.0 * 1024, m = sum / n;
    CHECK(std::abs(m - mean[c]) < 5.1e-5);
    CHECK(std::abs(std::sqrt(squares / n - m * m) - deviation[c]) < 5.1e-5);
  }
  CHECK(Cifar10(root, {.train = false}).size() == 10'000);
}

TEST_CASE("cifar: whatever is done to a file, the reader refuses it or reads what is there") {
  FuzzPlan plan(1'000, 23);
  const std::string golden = record(3) + record(9);
  const std::vector<std::string_view> words{"\x0a", "\xff", "\x1f\x8b\x08", golden};
  long long accepted = 0;
  for (long long i = 0; i < plan.cases; ++i) {
    std::string text = mutated(golden, plan.random, words);
    // Most edits change the size: half of the files are made whole records again.
    if (plan.random() % 2) text.resize((text.size() + 1536) / 3073 * 3073);
    if (!text.empty() && plan.random() % 4 == 0) text[text.size() / 6146 * 3073] ^= char(i);
    accepted += wt_test::takes_cifar(text);
  }
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases);
}
