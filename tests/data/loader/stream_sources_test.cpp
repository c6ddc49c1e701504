// Sources of a StreamLoader: shards, TFRecord files, lines, functions; what they hold.
#include "warptape/data/stream_sources.h"

#include <algorithm>
#include <set>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/tests/data/loaders.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/child.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/gzip.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace wt::data;

namespace {

// Record i: x is i in each of `width` places, y is 10 i; files of a few records.
void pack(const std::string& path, i64 n, i64 width, u64 file_bytes) {
  ShardWriter w(path,
                {{.name = "x", .dtype = DType::f32, .shape = {width}},
                 {.name = "y", .dtype = DType::i64},
                 {.name = "word", .kind = ShardKind::string}},
                {.max_file_bytes = file_bytes});
  for (i64 i = 0; i < n; ++i)
    w.add({full({width}, float(i)), tensor(10 * i, {.dtype = DType::i64}), str("w", i)});
  w.finish();
}

std::vector<std::string> lines_of(const LineStream& s) {
  const auto keep = [](std::string line) { return line; };
  const auto list = [](std::vector<std::string> lines) { return lines; };
  StreamLoader loader{decoded(s, keep, list), {.batch = 3}};
  std::vector<std::string> all;
  for (auto& batch : loader) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

}  // namespace

TEST_CASE("shard stream: a pack's records, in order and shuffled, resumed") {
  const TempDir dir;
  pack(dir / "p", 50, 3, 400);
  const ShardStream stream(dir / "p");
  CHECK(stream.parts() > 4);
  StreamLoader in_order{stream, {.batch = 8}};
  Batch b;
  REQUIRE(in_order.next(b));
  CHECK(b.x.shape() == Shape{8, 3});
  CHECK(b.x.to_vector<float>()[23] == 7);
  CHECK(b.y.to_vector<i64>()[7] == 70);

  StreamOptions o{.batch = 8, .shuffle = true, .buffer = 20, .seed = 1, .interleave = 3};
  StreamLoader one{stream, o};
  const std::vector<i64> order = wt_test::targets_of(one);
  o.workers = 3;
  StreamLoader three{ShardStream(dir / "p"), o};
  CHECK(wt_test::targets_of(three) == order);
  CHECK(wt_test::targets_of(three) == wt_test::targets_of(one));
  three.set_state({0, 2});
  CHECK(wt_test::targets_of(three) == std::vector<i64>(order.begin() + 16, order.end()));
  CHECK(std::set<i64>(order.begin(), order.end()).size() == 50);

  StreamLoader words{
      decoded(stream, [](ShardRecord r) { return i64(std::get<std::string>(r[2]).size()); }),
      {.batch = 50}};
  Tensor t;
  REQUIRE(words.next(t));
  CHECK(t.sum().item<i64>() == 10 * 2 + 40 * 3);

  StreamLoader wrong{ShardStream(dir / "p", {.x = "z"}), {.batch = 8}};
  CHECK_THROWS_AS(wrong.next(b), UsageError);
  StreamLoader no_tensor{ShardStream(dir / "p", {.y = "word"}), {.batch = 8}};
  CHECK_THROWS_AS(no_tensor.next(b), UsageError);
}

TEST_CASE("shard stream: a damaged record is named") {
  const TempDir dir;
  pack(dir / "p", 50, 3, 400);
  const std::string path = ShardStream(dir / "p").part_name(2);
  std::string bytes = slurp(path);
  const i64 first = [&] {
    const Shards file(path);
    return std::get<Tensor>(file.get(0)[1]).item<i64>() / 10;
  }();
  const size_t at = bytes.find(str("w", first + 1));  // the word of its second record
  REQUIRE(at != bytes.npos);
  bytes[at] ^= 1;
  spit(path, bytes);
  StreamLoader loader{ShardStream(dir / "p"), {.batch = 50}};
  Batch b;
  std::string text;
  try {
    loader.next(b);
  } catch (const DataError& e) {
    text = e.what();
  }
  CHECK(text.find("in record 1 of part 2 (") != text.npos);
  CHECK(text.find(path) != text.npos);
}

TEST_CASE("tfrecord stream: plain and gzip files, features and records") {
  const TempDir dir;
  const auto example = [](i64 i) {
    return tf_example_bytes({{"image", std::vector<float>{float(i), 1, 2}},
                             {"label", std::vector<i64>{i}},
                             {"name", std::vector<std::string>{"n"}}});
  };
  for (int f = 0; f < 3; ++f) {
    TfRecordWriter w(dir / str("t-", f, ".tfrecord"));
    for (i64 i = 0; i < 5; ++i) w.add(example(10 * f + i));
    w.finish();
  }
#if WARPTAPE_HAS_ZLIB
  spit(dir / "t-1.tfrecord", wt_test::gzip_stored(slurp(dir / "t-1.tfrecord")));
#endif
  const TfRecordStream stream(dir / "t-*.tfrecord", {.x = "image", .y = "label"});
  CHECK(stream.parts() == 3);
  StreamLoader loader{stream, {.batch = 4, .shuffle = true, .buffer = 3, .workers = 2}};
  std::vector<i64> seen;
  for (auto& [x, y] : loader) {
    CHECK(x.dtype() == DType::f32);
    CHECK(x.size(1) == 3);
    CHECK(y.ndim() == 1);
    for (i64 i = 0; i < y.size(0); ++i)
      CHECK(i64(x.to_vector<float>()[size_t(3 * i)]) == y.to_vector<i64>()[size_t(i)]);
    for (const i64 v : y.to_vector<i64>()) seen.push_back(v);
  }
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector<i64>{0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24});

  StreamLoader lengths{decoded(stream, [](std::string r) { return i64(r.size()); }), {.batch = 15}};
  Tensor t;
  REQUIRE(lengths.next(t));
  CHECK(t.size(0) == 15);
  Batch b;
  for (const char* y : {"none", "name"}) {
    StreamLoader wrong{TfRecordStream(dir / "t-0.tfrecord", {.x = "image", .y = y})};
    CHECK_THROWS_AS(wrong.next(b), UsageError);
  }
  std::string cut = slurp(dir / "t-2.tfrecord");
  cut.resize(cut.size() - 3);
  spit(dir / "t-2.tfrecord", cut);
  StreamLoader damaged{stream, {.batch = 15}};
  CHECK_THROWS_AS(damaged.next(b), DataError);
  StreamLoader partial{TfRecordStream(dir / "t-2.tfrecord",
                                      {.x = "image", .y = "label", .allow_partial_tail = true})};
  REQUIRE(partial.next(b));
  CHECK(b.y.to_vector<i64>() == std::vector<i64>{20, 21, 22, 23});
  CHECK_THROWS_AS(TfRecordStream(dir / "u-*"), DataError);
}

TEST_CASE("line stream: ends of lines, empty and long ones, files of all kinds") {
  const TempDir dir;
  const std::string longer(150'000, 'x');
  spit(dir / "a", "one\ntwo\r\n\nfour");
  spit(dir / "b", "");
  spit(dir / "c", longer + "\n" + longer + "\r\n");
  const std::vector<std::string> of_a{"one", "two", "", "four"};
  CHECK(lines_of(LineStream({dir / "a"})) == of_a);
  std::vector<std::string> all = of_a;
  all.push_back(longer);
  all.push_back(longer);
  CHECK(lines_of(LineStream({dir / "a", dir / "b", dir / "c"})) == all);
  // Every place of a line's end beside that of a piece.
  for (const i64 n : {65534, 65535, 65536, 65537}) {
    spit(dir / "d", std::string(size_t(n), 'y') + "\r\nz\n");
    CHECK(lines_of(LineStream({dir / "d"})) ==
          std::vector<std::string>{std::string(size_t(n), 'y'), "z"});
  }
#if WARPTAPE_HAS_ZLIB
  spit(dir / "g", wt_test::gzip_stored("one\ntwo\r\n\nfour"));
  CHECK(lines_of(LineStream({dir / "g"})) == of_a);
#endif
  CHECK_THROWS_AS(lines_of(LineStream({dir / "c"}, {.limits = {.max_string = 149'999}})),
                  DataError);
  CHECK_THROWS_AS(lines_of(LineStream({dir / "none"})), DataError);
  CHECK_THROWS_AS(LineStream({}), UsageError);
  // A file of more bytes than max_bytes is read all the same: it is never held.
  CHECK(lines_of(LineStream({dir / "a"}, {.limits = {.max_bytes = 3}})) == of_a);
}

TEST_CASE("generated stream: a function's records, with augmentation drawn from their places") {
  const LeakGuard leaks;
  const auto numbers = generated<i64>([](i64 epoch) {
    return [i = i64{0}, epoch](i64& v) mutable {
      v = 100 * epoch + i;
      return ++i <= 10;
    };
  });
  std::vector<std::vector<float>> first;
  for (const int workers : {0, 3}) {
    StreamLoader loader{
        decoded(numbers,
                [](i64 v, i64 epoch, i64 place) {
                  return std::array{full({2}, float(v)), full({}, float(1000 * epoch + place))};
                }),
        {.batch = 4, .workers = workers}};
    std::vector<std::vector<float>> seen;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (auto& [v, place] : loader) {
        seen.push_back(v.to_vector<float>());
        seen.push_back(place.to_vector<float>());
      }
    if (workers == 0) first = seen;
    CHECK(seen == first);
    CHECK(seen.back() == std::vector<float>{1008, 1009});
  }
}

// 48 MiB in files of 2 MiB, of which a shuffle buffer of 1 MiB and two files' indices are held.
TEST_CASE("stream loader: a pack that is larger than its buffer is read in bounded memory") {
  const TempDir dir;
  const i64 n = 12'288, width = 1024;
  pack(dir / "p", n, width, 2 << 20);
  CHECK(wt_test::in_little_memory(12 << 20, [&] {
          i64 sum = 0;
          StreamLoader loader{ShardStream(dir / "p"),
                              {.batch = 16, .shuffle = true, .buffer = 256, .interleave = 2}};
          for (auto& [x, y] : loader)
            for (const i64 v : y.to_vector<i64>()) sum += v;
          return sum == 10 * n * (n - 1) / 2;
        }) == 0);
}
