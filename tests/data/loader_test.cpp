// Datasets and the loader: order, position, files that are wrong.
#include "warptape/data/loader.h"

#include <cmath>
#include <fstream>
#include <set>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/data/idx.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using namespace wt;
using namespace wt::data;

namespace {

TensorDataset numbers(i64 n) { return {arange(n), arange(n)}; }

std::vector<i64> all(Loader<TensorDataset>& loader) {
  std::vector<i64> seen;
  for (auto& [x, y] : loader) {
    for (i64 v : x.to_vector<i64>()) seen.push_back(v);
    CHECK(y.to_vector<i64>() == x.to_vector<i64>());
  }
  return seen;
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("loader: every sample once an epoch, the order a function of seed and epoch",
          "[wall][random]") {
  Loader plain{numbers(10), {.batch = 4}};
  CHECK(plain.size() == 3);
  CHECK(all(plain) == std::vector<i64>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  Loader a{numbers(100), {.batch = 7, .shuffle = true, .seed = 5}};
  Loader b{numbers(100), {.batch = 9, .shuffle = true, .seed = 5}};
  Loader c{numbers(100), {.batch = 7, .shuffle = true, .seed = 6}};
  const std::vector<i64> first = all(a);
  CHECK(std::set<i64>(first.begin(), first.end()).size() == 100);
  CHECK(first == all(b));
  CHECK(first != all(c));
  const std::vector<i64> second = all(a);
  CHECK(second != first);
  CHECK(second == all(b));
  Loader dropped{numbers(10), {.batch = 4, .drop_last = true}};
  CHECK(all(dropped).size() == 8);
}

TEST_CASE("loader: its position comes back in the middle of an epoch") {
  Loader a{numbers(50), {.batch = 8, .shuffle = true, .seed = 1}};
  all(a);
  Batch batch;
  for (int i = 0; i < 3; ++i) REQUIRE(a.next(batch));
  Loader b{numbers(50), {.batch = 8, .shuffle = true, .seed = 1}};
  b.set_state(a.state());
  CHECK(all(a) == all(b));
  CHECK(a.state() == b.state());
  CHECK_THROWS_AS(b.set_state({0, 99}), UsageError);
}

TEST_CASE("loader: options that make no sense") {
  CHECK_THROWS_AS((Loader{numbers(3), {.batch = 0}}), UsageError);
  CHECK_THROWS_AS((Loader{numbers(3), {.batch = 4, .drop_last = true}}), UsageError);
  CHECK_THROWS_AS((TensorDataset{arange(3), arange(4)}), ShapeError);
}

TEST_CASE("text bytes: windows, parts without overlap, entropy") {
  std::vector<u8> text(100);
  for (size_t i = 0; i < text.size(); ++i) text[i] = u8(i);
  const TextBytes train(text, {.context = 4, .end = 0.8});
  const TextBytes held(text, {.context = 4, .begin = 0.8});
  CHECK(train.size() == 76);
  CHECK(held.size() == 16);
  const i64 last[] = {75};
  const Batch b = train.batch(last);
  CHECK(b.x.to_vector<i64>() == std::vector<i64>{75, 76, 77, 78});
  CHECK(b.y.to_vector<i64>() == std::vector<i64>{79});
  CHECK(std::abs(unigram_entropy(held.bytes()) - std::log(20.0)) < 1e-12);
  CHECK_THROWS_AS(TextBytes(text, {.context = 100}), DataError);
}

TEST_CASE("idx: exact sizes, byte offsets in errors") {
  const TempDir dir;
  const std::string path = dir / "a";
  using namespace std::string_literals;
  write(path,
        "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
        "abcdef"s);
  const Tensor t = read_idx(path);
  CHECK(t.shape() == Shape{2, 3});
  CHECK(t.to_vector<u8>()[5] == 'f');
  CHECK(idx_shape(path) == Shape{2, 3});
  write(path,
        "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
        "abcde"s);
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "truncated"));
  write(path,
        "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
        "abcdefg"s);
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "needs 6 bytes"));
  write(path, "\0\0\x0d\x01\0\0\0\x00"s);
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "element type 13"));
  write(path, "\0\0\x08\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s);
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "overflow"));
  write(path, "hello");
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "not an IDX file"));
  CHECK(mentions(message_of([&] { (void)idx_shape(path); }), "not an IDX file"));
  write(path, "\x1f\x8b\x08\x00garbage"s);
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), path));
}

TEST_CASE("idx: the shape comes from the header of a gzip file, however damaged the rest is") {
  const TempDir dir;
  const std::string path = dir / "a.gz";
  using namespace std::string_literals;
  const std::string idx = "\0\0\x08\x02\0\0\0\x05\0\0\0\x14"s + std::string(100, 'x');
  // A stored block, then a check sum that is wrong.
  const std::string block = "\x01\x70\0\x8f\xff"s + idx;
  write(path, "\x1f\x8b\x08\0\0\0\0\0\0\x03"s + block + "checkSUM");
  if (!WARPTAPE_HAS_ZLIB) SKIP_TEST("this build has no zlib");
  CHECK(idx_shape(path) == Shape{5, 20});
  CHECK(mentions(message_of([&] { (void)read_idx(path); }), "damaged"));
  write(path, "\x1f\x8b\x08\0\0\0\0\0\0\x03\x01\x70\0"s);
  CHECK(mentions(message_of([&] { (void)idx_shape(path); }), "ends early"));
}

TEST_CASE("fashion mnist: a missing folder or file is named") {
  CHECK(mentions(message_of([] { FashionMnist("/no/such/folder"); }), "no such folder"));
  const TempDir dir;
  CHECK(mentions(message_of([&] { FashionMnist(dir.path); }), "train-images-idx3-ubyte"));
}
