// CIFAR-10's binary files, right and damaged.
#include "warptape/data/cifar.h"

#include <cmath>

#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"

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
  spit(dir / "data_batch_1.bin.xz", "");
  CHECK(mentions(message_of([&] { Cifar10(dir.path); }), "Try unxz data_batch_1.bin.xz"));
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

TEST_CASE("cifar: whatever is done to a file, the reader refuses it or reads what is there") {
  FuzzPlan plan(2'000, 23);
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
