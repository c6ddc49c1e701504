// LMDB: what is written is read, a database of another program too, and no damaged one ends or
// stops the process that wants it.
#include "warptape/data/lmdb.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/data/formats/shard_parts.h"
#include "warptape/data/loader.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using namespace wt;
namespace fs = std::filesystem;

#if WARPTAPE_HAS_LMDB
#define NEEDS_LMDB() (void)0
#else
#define NEEDS_LMDB() SKIP_TEST("this build has no liblmdb")
#endif

namespace {

const std::vector<data::ShardField> kRow{{.name = "x", .dtype = DType::u8, .shape = {-1}},
                                         {.name = "y", .dtype = DType::i64},
                                         {.name = "raw", .kind = data::ShardKind::bytes}};

data::ShardRecord lmdb_row(i64 i, i64 width) {
  return {full({width}, i % 251, {.dtype = DType::u8}), tensor(3 * i, {.dtype = DType::i64}),
          std::string(size_t(i % 7), char(i))};
}
u64 write_lmdb(const std::string& path, i64 n, i64 width, u64 map = u64{64} << 20) {
  data::LmdbWriter w(path, kRow, {.map_bytes = map});
  for (i64 i = 0; i < n; ++i) w.add(lmdb_row(i, width + i % 3));
  w.finish();
  CHECK(w.records() == n);
  return w.map_bytes();
}
// The number of records; throws for one that is not what was written.
i64 read_lmdb(const std::string& path, i64 width) {
  const data::LmdbRecords all(path, {.timeout = 10});
  for (i64 i = 0; i < all.size(); ++i) {
    const data::ShardRecord got = all.get(i), want = lmdb_row(i, width + i % 3);
    const bool same =
        std::get<Tensor>(got[0]).to_vector<u8>() == std::get<Tensor>(want[0]).to_vector<u8>() &&
        std::get<Tensor>(got[1]).item<i64>() == 3 * i &&
        std::get<std::string>(got[2]) == std::get<std::string>(want[2]);
    if (!same) throw std::logic_error(str("record ", i, " is not what was written"));
  }
  return all.size();
}

// The processes that this one has started.
std::vector<pid_t> children() {
  std::vector<pid_t> all;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::istringstream in(slurp(task.path().string() + "/children"));
    for (pid_t p; in >> p;) all.push_back(p);
  }
  return all;
}

std::string sha256_of(const std::string& content) {
  const TempDir dir;
  spit(dir / "v", content);
  std::FILE* const f = ::popen(("sha256sum " + (dir / "v")).c_str(), "r");
  char sum[65] = {};
  const bool got = f && std::fread(sum, 1, 64, f) == 64;
  if (f) ::pclose(f);
  return got ? sum : "";
}
std::string hex_of(const std::string& bytes) {
  std::string s;
  for (const char c : bytes) s += {"0123456789abcdef"[u8(c) >> 4], "0123456789abcdef"[u8(c) & 15]};
  return s;
}

}  // namespace

TEST_CASE("lmdb: records come back, by their number, as a Dataset and by their keys") {
  NEEDS_LMDB();
  const TempDir dir;
  write_lmdb(dir / "d", 40, 5);
  CHECK(dir.count() == 1);
  CHECK(read_lmdb(dir / "d", 5) == 40);
  CHECK(read_lmdb(dir / "d/data.mdb", 5) == 40);
  const data::LmdbRecords all(dir / "d");
  CHECK(all.fields() == kRow);
  CHECK_THROWS_AS((void)all.get(40), IndexError);
  CHECK_THROWS_AS((void)all.get(-1), IndexError);
  const i64 rows[] = {1};
  CHECK(mentions(message_of([&] { (void)all.batch(rows); }), "has another size in every record"));
  data::LmdbReader reader(dir / "d");
  CHECK(reader.size() == 41);
  CHECK(reader.databases().empty());
  std::string key, value;
  for (int pass = 0; pass < 2; ++pass) {
    i64 n = 0;
    while (reader.next(key, value)) CHECK((n++ < 40 || key == "fields"));
    CHECK(n == 41);
  }
  CHECK(reader.get("00000007").has_value());
  CHECK(!reader.get("7").has_value());
  CHECK(!reader.get("").has_value());
  // None, and fixed shapes in a loader with workers.
  write_lmdb(dir / "none", 0, 5);
  CHECK(data::LmdbRecords(dir / "none").size() == 0);
  data::LmdbWriter w(dir / "f", {{.name = "x", .dtype = DType::f32, .shape = {2}},
                                 {.name = "y", .dtype = DType::i64}});
  for (i64 i = 0; i < 100; ++i) w.add({full({2}, double(i)), tensor(i, {.dtype = DType::i64})});
  w.finish();
  i64 sum = 0;
  for (auto& [x, y] :
       data::Loader{data::LmdbRecords{dir / "f"}, {.batch = 8, .shuffle = true, .workers = 3}})
    for (const i64 v : y.to_vector<i64>()) sum += v;
  CHECK(sum == 99 * 50);
}

TEST_CASE("lmdb: trap T26, the map's size is a whole number and grows when it is full") {
  NEEDS_LMDB();
  const TempDir dir;
  const u64 map = write_lmdb(dir / "d", 800, 5000, 1 << 16);
  CHECK(map >= 800 * 5000);
  CHECK(map < 64 * 800 * 5000);
  CHECK(read_lmdb(dir / "d", 5000) == 800);
  // A value that is larger than the whole map.
  data::LmdbWriter w(dir / "e", {{.name = "raw", .kind = data::ShardKind::bytes}},
                     {.map_bytes = 1 << 16});
  w.add({std::string(10 << 20, 'x')});
  w.finish();
  CHECK(std::get<std::string>(data::LmdbRecords(dir / "e").get(0)[0]).size() == 10 << 20);
  CHECK_THROWS_AS(data::LmdbWriter(dir / "g", kRow, {.map_bytes = 1}), UsageError);
  CHECK(!fs::exists(dir / "g.partial"));
}

TEST_CASE("lmdb: a database of another program has the entries that it should have") {
  NEEDS_LMDB();
  const std::string root = test_data("lmdb");
  if (root.empty()) SKIP_TEST("../shared/data/lmdb is not there");
  std::map<std::string, std::pair<i64, std::string>> expected;
  std::istringstream table(slurp(root + "/expected_subdb.tsv"));
  std::string line, key, value;
  std::getline(table, line);
  for (i64 bytes; table >> key >> bytes >> value;) expected[key] = {bytes, value};
  REQUIRE(expected.size() == 50);
  data::LmdbReader main(root + "/ref_env_64");
  REQUIRE(main.databases().size() == 1);
  CHECK(main.databases()[0] == std::pair<std::string, i64>("subdb", 50));
  data::LmdbReader reader(root + "/ref_env_64", {.database = "subdb"});
  CHECK(reader.size() == 50);
  std::string any;
  while (reader.next(key, value)) {
    const auto at = expected.find(hex_of(key));
    REQUIRE(at != expected.end());
    CHECK(i64(value.size()) == at->second.first);
    CHECK(sha256_of(value) == at->second.second);
    expected.erase(at);
    any = key;
  }
  CHECK(expected.empty());
  CHECK(reader.get(any).has_value());
  CHECK(mentions(
      message_of([&] { (void)data::LmdbReader(root + "/ref_env_64", {.database = "subdv"}); }),
      "has no database 'subdv'; it has subdb"));
  CHECK(mentions(message_of([&] { (void)data::LmdbRecords(root + "/ref_env_64"); }),
                 "LmdbWriter has not written it"));
}

TEST_CASE("lmdb: pickled values are refused by name, records that look alike are not") {
  NEEDS_LMDB();
  const TempDir dir;
  // Eight bytes that begin as a pickle and whose check sum ends as one.
  i64 like = -1;
  for (i64 i = 0; i < 4000 && like < 0; ++i) {
    const u8 bytes[] = {0x80, 4, 0x95, u8(i), u8(i >> 8), 0, 0, 0};
    std::string record(reinterpret_cast<const char*>(bytes), 8), name = "00000000";
    const u32 crc = crc32c(record.data(), 8, crc32c(name.data(), 8));
    if (crc >> 24 != '.') continue;
    data::LmdbWriter w(dir / str(i), {{.name = "x", .dtype = DType::u8, .shape = {8}}});
    w.add({tensor(std::vector<u8>(bytes, bytes + 8))});
    w.finish();
    like = i;
  }
  REQUIRE(like >= 0);
  const std::string path = dir / str(like);
  std::string key, value;
  const std::string said = message_of([&] { (void)data::LmdbReader(path).next(key, value); });
  CHECK(mentions(said, "the value of '00000000' is a Python pickle"));
  CHECK(mentions(said, "code execution"));
  CHECK_THROWS_AS((void)data::LmdbReader(path).get("00000000"), DataError);
  CHECK(std::get<Tensor>(data::LmdbRecords(path).get(0)[0]).numel() == 8);
}

TEST_CASE("lmdb: a child that dies, stops or loses its file is an error with the reason") {
  NEEDS_LMDB();
  const TempDir dir;
  write_lmdb(dir / "d", 200, 3000);
  const std::vector<pid_t> before = children();
  std::string key, value;
  const auto after = [&](int signal, double timeout) {
    data::LmdbReader reader(dir / "d", {.timeout = timeout});
    REQUIRE(reader.next(key, value));
    for (const pid_t p : children())
      if (std::find(before.begin(), before.end(), p) == before.end()) ::kill(p, signal);
    const std::string said = message_of([&] {
      while (reader.next(key, value)) {}
    });
    CHECK(mentions(message_of([&] { (void)reader.next(key, value); }), "see the first error"));
    return said;
  };
  CHECK(mentions(after(SIGKILL, 20), "died with SIGKILL"));
  CHECK(mentions(after(SIGSTOP, 0.2), "did not answer in 0.2 seconds"));
  CHECK(children() == before);  // none is left
  data::LmdbReader reader(dir / "d");
  REQUIRE(reader.next(key, value));
  fs::resize_file(dir / "d/data.mdb", 8192);
  const std::string said = message_of([&] {
    while (reader.next(key, value)) {}
  });
  CHECK(mentions(said, "died with SIGBUS: the file is damaged or truncated"));
  CHECK(mentions(message_of([&] { (void)data::LmdbReader(dir / "d"); }), "truncated download?"));
  CHECK_THROWS_AS(data::LmdbReader(dir / "none"), DataError);
  CHECK_THROWS_AS(data::LmdbReader(dir.path), DataError);
  spit(dir / "text", std::string(20'000, 'x'));
  CHECK(mentions(message_of([&] { (void)data::LmdbReader(dir / "text"); }), "its magic is"));
}

TEST_CASE("lmdb: a writer that fails or is killed leaves nothing under the name") {
  NEEDS_LMDB();
  const TempDir dir;
  {
    data::LmdbWriter w(dir / "d", kRow);
    w.add(lmdb_row(1, 10));
    CHECK_THROWS_AS(w.add({std::string("x")}), UsageError);
    CHECK_THROWS_AS(data::LmdbWriter(dir / "d", kRow), CheckpointError);  // is being written
  }
  CHECK(dir.count() == 0);
  for (const bool full : {true, false}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit most{1 << 20, 1 << 20};
      if (full) ::setrlimit(RLIMIT_FSIZE, &most);
      try {
        data::LmdbWriter w(dir / "d", kRow);
        for (i64 i = 0; i < 1000; ++i) w.add(lmdb_row(i, 5000));
        if (!full) ::raise(SIGKILL);
        w.finish();
      } catch (const CheckpointError&) {
        ::_exit(8);
      } catch (...) {}
      ::_exit(1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((full ? WIFEXITED(status) && WEXITSTATUS(status) == 8 : WTERMSIG(status) == SIGKILL));
    CHECK(!fs::exists(dir / "d"));
    CHECK(dir.count() == (full ? 0 : 1));
  }
  write_lmdb(dir / "d", 20, 10);  // over what the killed one left
  CHECK(dir.count() == 1);
  CHECK(read_lmdb(dir / "d", 10) == 20);
  CHECK_THROWS_AS(data::LmdbWriter(dir / "d", kRow), UsageError);
}

TEST_CASE("lmdb: cut at any page, or a bit flipped anywhere, it is refused or right") {
  NEEDS_LMDB();
  const TempDir dir;
  write_lmdb(dir / "d", 40, 700);
  const std::string path = dir / "d/data.mdb", good = slurp(path);
  REQUIRE(good.size() > 10 * 4096);
  const auto refused_or_right = [&] {
    try {
      const i64 records = read_lmdb(path, 700);
      REQUIRE(records == 40);
      return false;
    } catch (const DataError& e) {
      REQUIRE(mentions(e.what(), path));
      return true;
    }
  };
  const size_t stride = wt_test::whole_walk() ? 2 : 5;
  for (size_t page = 0; page <= good.size() / 4096; page += stride)
    for (const i64 off : {-1, 0, 1}) {
      const i64 n = i64(page * 4096) + off;
      if (n < 0 || n >= i64(good.size())) continue;
      spit(path, std::string_view(good).substr(0, size_t(n)));
      REQUIRE(refused_or_right());
    }
  // All of both meta pages' content, and some of every other page's head.
  std::vector<size_t> places;
  for (const size_t meta : {0, 4096})
    for (size_t i = 0; i < 152; ++i) places.push_back(meta + i);
  for (size_t page = 2; page < good.size() / 4096; ++page)
    for (const size_t i : {0, 10, 12, 14, 16, 17, 40, 300, 4090}) places.push_back(page * 4096 + i);
  std::mt19937 random(3);
  int refused = 0;
  for (size_t place = 0; place < places.size(); place += stride) {
    std::string bad = good;
    bad[places[place]] ^= char(1 << random() % 8);
    spit(path, bad);
    refused += refused_or_right();
  }
  CHECK(refused > 100 / int(stride));
}

TEST_CASE("lmdb: whatever is done to a file, the reader refuses it or reads what is there") {
  NEEDS_LMDB();
  const TempDir dir;
  write_lmdb(dir / "d", 60, 300);
  const std::string golden = slurp(dir / "d/data.mdb");
  REQUIRE(wt_test::takes_lmdb(golden));
  const std::vector<std::string_view> words{"\xff\xff\xff\xff", std::string_view("\0\0\0\0", 4),
                                            std::string_view("\x01\0\0\0\0\0\0\0", 8),
                                            "\xff\xff\xff\xff\xff\xff\xff\x7f", "\x80"};
  FuzzPlan plan(wt_test::whole_walk() ? 150 : 50, 8);  // a process each
  const long long accepted = taken_of(plan, {golden}, words, wt_test::takes_lmdb);
  CHECK(accepted < plan.cases);
}
