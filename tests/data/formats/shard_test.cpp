// Shards: what is written is read, and nothing that is damaged passes.
#include "warptape/data/shard.h"

#include <sys/wait.h>

#include <filesystem>

#include "warptape/core/factories.h"
#include "warptape/data/formats/shard_parts.h"
#include "warptape/data/loader.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/child.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
namespace fs = std::filesystem;

namespace {

const std::vector<data::ShardField> kPairs{{.name = "x", .dtype = DType::u8, .shape = {2, 3}},
                                           {.name = "y", .dtype = DType::i64}};
const std::vector<data::ShardField> kMixed{
    {.name = "points", .dtype = DType::f32, .shape = {-1, 3}},
    {.name = "label", .dtype = DType::i32},
    {.name = "raw", .kind = data::ShardKind::bytes},
    {.name = "caption", .kind = data::ShardKind::string},
    {.name = "seen", .dtype = DType::boolean, .shape = {2}}};

// Record i of kPairs: x is i, i + 1, ..., y is 10 i.
data::ShardRecord shard_pair(i64 i) {
  return {arange(i, i + 6).reshape({2, 3}).to(DType::u8), tensor(10 * i, {.dtype = DType::i64})};
}
data::ShardRecord mixed_record(i64 i) {
  return {arange(3 * i, {.dtype = DType::f32}).reshape({i, 3}), tensor(i, {.dtype = DType::i32}),
          std::string(size_t(i), '\0') + "\xff", std::string(i % 2 ? "caf\xc3\xa9" : ""),
          tensor({i % 2 == 0, true})};
}
void pack_pairs(const std::string& path, i64 n, u64 file_bytes = 1 << 20) {
  data::ShardWriter w(path, kPairs, {.max_file_bytes = file_bytes});
  for (i64 i = 0; i < n; ++i) w.add(shard_pair(i));
  w.finish();
}
void same_tensor(const data::ShardValue& a, const data::ShardValue& b) {
  const Tensor &x = std::get<Tensor>(a), &y = std::get<Tensor>(b);
  REQUIRE(x.dtype() == y.dtype());
  REQUIRE(x.shape() == y.shape());
  CHECK(x.to(DType::f64).to_vector<double>() == y.to(DType::f64).to_vector<double>());
}
std::string first_shard(const std::string& folder) { return folder + "/00000.wtshard"; }

}  // namespace

TEST_CASE("shards: every kind of field comes back, also empty and ragged ones") {
  const TempDir dir;
  data::ShardWriter w(dir / "p", kMixed, {.max_file_bytes = 300});
  for (i64 i = 0; i < 12; ++i) w.add(mixed_record(i));
  CHECK(!fs::exists(dir / "p"));
  w.finish();
  CHECK(!fs::exists(dir / "p.partial"));
  const data::Shards s(dir / "p");
  REQUIRE(s.size() == 12);
  CHECK(s.fields() == kMixed);
  CHECK(s.files().size() > 2);
  CHECK(u64(w.bytes()) == s.bytes());
  for (i64 i = 0; i < 12; ++i) {
    const data::ShardRecord got = s.get(i), want = mixed_record(i);
    for (const size_t k : {0, 1, 4}) same_tensor(got[k], want[k]);
    for (const size_t k : {2, 3})
      CHECK(std::get<std::string>(got[k]) == std::get<std::string>(want[k]));
  }
  CHECK_THROWS_AS((void)s.get(12), IndexError);
  CHECK_THROWS_AS((void)s.get(-1), IndexError);
  const i64 rows[] = {3, 0, 3};
  const auto columns = s.columns(rows);  // those of a fixed shape
  REQUIRE(columns.size() == 2);
  CHECK(columns[0].second.to_vector<i32>() == std::vector<i32>{3, 0, 3});
  CHECK_THROWS_AS((void)s.columns(rows, {"points"}), UsageError);
  CHECK_THROWS_AS((void)s.columns(rows, {"lable"}), UsageError);
}

TEST_CASE("shards: a Dataset, in any order, resumed in the middle of an epoch") {
  const TempDir dir;
  pack_pairs(dir / "p", 50, 300);
  const data::Shards s(dir / "p");
  CHECK(s.files().size() >= 3);
  data::Loader all{s, {.batch = 8, .shuffle = true, .seed = 3}};
  std::vector<i64> seen;
  for (auto& [x, y] : all) {
    CHECK(x.shape() == Shape{y.size(0), 2, 3});
    for (const i64 v : y.to_vector<i64>()) seen.push_back(v / 10);
    CHECK(i64(x.to_vector<u8>()[0]) * 10 == y.to_vector<i64>()[0]);
  }
  CHECK(seen == data::epoch_order(50, true, 3, 0));
  data::Loader rest{s, {.batch = 8, .shuffle = true, .seed = 3, .workers = 2}};
  rest.set_state({.epoch = 0, .batch = 5, .samples = 50});
  std::vector<i64> tail;
  for (auto& [x, y] : rest)
    for (const i64 v : y.to_vector<i64>()) tail.push_back(v / 10);
  CHECK(tail == std::vector<i64>(seen.begin() + 40, seen.end()));
}

TEST_CASE("shards: no records, one record larger than a file, a scalar's pack") {
  const TempDir dir;
  pack_pairs(dir / "none", 0);
  CHECK(data::Shards(dir / "none").size() == 0);
  pack_pairs(dir / "large", 3, 1);
  CHECK(data::Shards(dir / "large").files().size() == 3);
  CHECK(data::Shards(first_shard(dir / "large")).size() == 1);
  CHECK(data::check_shards(dir / "large").records == 3);
}

TEST_CASE("shards: what does not fit the fields is refused and nothing of it is written") {
  const TempDir dir;
  data::ShardWriter w(dir / "p", kPairs);
  const Tensor y = tensor(1, {.dtype = DType::i64});
  CHECK_THROWS_AS(w.add({zeros({2, 3}), y}), DtypeError);
  CHECK_THROWS_AS(w.add({zeros({3, 2}).to(DType::u8), y}), ShapeError);
  CHECK_THROWS_AS(w.add({std::string("x"), y}), UsageError);
  CHECK_THROWS_AS(w.add({y}), UsageError);
  CHECK_THROWS_AS(w.add({Tensor(), y}), UsageError);
  w.add(shard_pair(4));
  w.finish();
  CHECK_THROWS_AS(w.add(shard_pair(5)), UsageError);
  CHECK_THROWS_AS(w.finish(), UsageError);
  CHECK(data::Shards(dir / "p").size() == 1);
  CHECK_THROWS_AS(data::ShardWriter(dir / "p", kPairs), UsageError);  // is there already
  using F = std::vector<data::ShardField>;
  CHECK_THROWS_AS(data::ShardWriter(dir / "q", F{}), UsageError);
  CHECK_THROWS_AS(data::ShardWriter(dir / "q", F{{.name = ""}}), UsageError);
  CHECK_THROWS_AS(data::ShardWriter(dir / "q", F{{.name = "a"}, {.name = "a"}}), UsageError);
  CHECK_THROWS_AS(data::ShardWriter(dir / "q", F{{.name = "a", .shape = {-2}}}), UsageError);
  CHECK(!fs::exists(dir / "q.partial"));
}

TEST_CASE("shards: an interrupted pack leaves nothing under its name, and the next one is whole") {
  const TempDir dir;
  {
    data::ShardWriter w(dir / "p", kPairs);
    w.add(shard_pair(1));
  }
  CHECK(dir.count() == 0);
  // Killed at every system call that changes the disk.
  for (int nth = 1;; ++nth) {
    const pid_t child = fork();
    if (child == 0) {
      FaultyFiles faults(nth, 0);
      try {
        pack_pairs(dir / "p", 20, 300);
      } catch (...) {
        ::_exit(2);
      }
      ::_exit(faults.reached() ? 3 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 1) break;
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(!fs::exists(dir / "p"));
    REQUIRE(nth < 500);
  }
  CHECK(data::Shards(dir / "p").size() == 20);  // over what the killed ones left
  CHECK(data::check_shards(dir / "p").damage.empty());
  CHECK(dir.count() == 1);
  // A full disk is an error that leaves as little.
  for (int nth = 1; nth < 12; ++nth) {
    FaultyFiles faults(nth, ENOSPC);
    try {
      pack_pairs(dir / "q", 20, 300);
      CHECK(data::Shards(dir / "q").size() == 20);  // what failed was only the reserve
      fs::remove_all(dir / "q");
    } catch (const CheckpointError&) {
      CHECK(!fs::exists(dir / "q"));
    }
    CHECK(dir.count() == 1);
  }
}

TEST_CASE("shards: cut at any byte, or one bit flipped, a file is refused or the record is") {
  const TempDir dir;
  pack_pairs(dir / "p", 5);
  const std::string path = first_shard(dir / "p"), good = slurp(path);
  for (size_t n = 0; n < good.size(); ++n) {
    spit(path, std::string_view(good).substr(0, n));
    CHECK_THROWS_AS(data::Shards(dir / "p"), DataError);
    CHECK(data::check_shards(dir / "p").damage.size() == 1);
  }
  spit(path, good + '\0');
  CHECK_THROWS_AS(data::Shards(dir / "p"), DataError);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] ^= char(1 << bit % 8);
    spit(path, bad);
    CHECK(data::check_shards(dir / "p").damage.size() == 1);
    const auto read_all = [&] {
      const data::Shards s(dir / "p");
      for (i64 i = 0; i < s.size(); ++i) (void)s.get(i);
    };
    CHECK_THROWS_AS(read_all(), DataError);
  }
}

TEST_CASE("shards: verify names every damaged record with its file and byte") {
  const TempDir dir;
  pack_pairs(dir / "p", 30, 200);
  const data::Shards s(dir / "p");
  const std::string path = s.files()[1];
  std::string bytes = slurp(path);
  const size_t begin = data::detail::kShardHeader + data::detail::shard_schema(kPairs).size() + 4;
  bytes[begin + 2 * 14 + 3] ^= 1;
  bytes[begin + 4 * 14] ^= 1;
  spit(path, bytes);
  u64 told = 0, size = 0;
  for (const std::string& f : s.files()) size += fs::file_size(f);
  const data::ShardCheck check = data::check_shards(dir / "p", [&](u64 n) { told += n; });
  CHECK(told == size);
  CHECK(check.bytes == size);
  CHECK(check.records == 30);
  REQUIRE(check.damage.size() == 2);
  CHECK(check.damage[0].file == path);
  CHECK(check.damage[0].record == 2);
  CHECK(check.damage[0].offset == begin + 28);
  CHECK(check.damage[1].record == 4);
}

TEST_CASE("shards: files that are missing, swapped, of another pack, or change while open") {
  const TempDir dir;
  pack_pairs(dir / "p", 30, 200);
  pack_pairs(dir / "other", 29, 210);
  const auto files = data::Shards(dir / "p").files();
  REQUIRE(files.size() >= 3);
  const std::string middle = slurp(files[1]), end = slurp(files.back());
  const auto refused = [&] {
    CHECK_THROWS_AS(data::Shards(dir / "p"), DataError);
    CHECK(!data::check_shards(dir / "p").damage.empty());
  };
  fs::remove(files.back());
  refused();
  spit(files.back(), end);
  fs::remove(files[1]);
  refused();
  spit(files[1], slurp(data::Shards(dir / "other").files()[1]));
  refused();
  spit(files[1], middle);
  const data::Shards open(dir / "p");
  fs::remove(files[0]);
  CHECK(open.get(0).size() == 2);  // it is held
  const i64 last = open.size() - 1;
  fs::resize_file(files.back(), 40);
  CHECK_THROWS_AS((void)open.get(last), DataError);
  spit(files.back(), std::string(end.size(), 'x'));
  CHECK_THROWS_AS((void)open.get(last), DataError);
  CHECK_THROWS_AS(data::Shards(dir / "none"), DataError);
  CHECK_THROWS_AS(data::Shards(dir.path), DataError);  // a folder without shards
}

TEST_CASE("shards: a pack is read in less memory than it has") {
  const TempDir dir;
  const std::vector<data::ShardField> fields{{.name = "x", .dtype = DType::u8, .shape = {1 << 20}},
                                             {.name = "y", .dtype = DType::i64}};
  data::ShardWriter w(dir / "p", fields, {.max_file_bytes = 16 << 20});
  const Tensor x = zeros({1 << 20}).to(DType::u8);
  for (i64 i = 0; i < 64; ++i) w.add({x, tensor(i, {.dtype = DType::i64})});
  w.finish();
  CHECK(wt_test::in_little_memory(24 << 20, [&] {
          i64 sum = 0;
          for (auto& [a, y] : data::Loader{data::Shards{dir / "p"}, {.batch = 2}})
            for (const i64 v : y.to_vector<i64>()) sum += v;
          return sum == 63 * 32 && data::check_shards(dir / "p").damage.empty();
        }) == 0);
}

TEST_CASE("shard: whatever is done to a file, the reader refuses it or reads what is there") {
  const TempDir dir;
  data::ShardWriter w(dir / "p", kMixed);
  for (i64 i = 0; i < 3; ++i) w.add(mixed_record(i));
  w.finish();
  const std::string golden = slurp(first_shard(dir / "p"));
  REQUIRE(wt_test::takes_shard(golden));
  const std::vector<std::string_view> words{"\xff\xff\xff\xff", std::string_view("\0\0\0\0", 4),
                                            std::string_view("\x01\0\0\0\0\0\0\0", 8),
                                            "\xff\xff\xff\xff\xff\xff\xff\x7f", "\x80"};
  FuzzPlan plan(10'000, 5);
  const long long accepted = taken_of(plan, {golden}, words, wt_test::takes_shard);
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases / 2);
}

TEST_CASE("shard_record: whatever is done to one, the reader refuses it or reads what is there") {
  const auto number = [](u64 v) {
    std::string s;
    data::detail::append_le(s, v);
    return s;
  };
  const std::string golden = number(2) + number(1) + std::string(16, 'f') + number(3) + "raw" +
                             number(2) + "ok" + std::string("\0\1\0", 3);
  REQUIRE(wt_test::takes_shard_record(golden));
  const std::string most = number(u64(INT64_MAX)), none = number(0), over = number(u64{1} << 62);
  const std::vector<std::string_view> words{most, none, over, "\xff", std::string_view("\1\0", 2)};
  FuzzPlan plan(10'000, 6);
  const long long accepted = taken_of(plan, {golden}, words, wt_test::takes_shard_record);
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases / 2);
}
