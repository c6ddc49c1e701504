// Shards that are mapped: only while the stamp of verify_shards() fits, and safely.
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "warptape/core/factories.h"
#include "warptape/data/formats/shard_parts.h"
#include "warptape/data/loader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/child.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace wt_test;
namespace fs = std::filesystem;

namespace {

void pack_numbers(const std::string& path, i64 n, i64 width, u64 file_bytes) {
  data::ShardWriter w(
      path,
      {{.name = "x", .dtype = DType::u8, .shape = {width}}, {.name = "y", .dtype = DType::i64}},
      {.max_file_bytes = file_bytes});
  for (i64 i = 0; i < n; ++i)
    w.add({full({width}, i % 251, {.dtype = DType::u8}), tensor(i, {.dtype = DType::i64})});
  w.finish();
}

std::vector<u8> all_bytes(const data::Shards& s) {
  std::vector<u8> all;
  for (i64 i = 0; i < s.size(); ++i)
    for (const u8 b : std::get<Tensor>(s.get(i)[0]).to_vector<u8>()) all.push_back(b);
  return all;
}

}  // namespace

TEST_CASE("mapped shards: only what verify_shards() stamped, with the same records", "[shards]") {
  const TempDir dir;
  pack_numbers(dir / "p", 40, 100, 1000);
  const data::Shards before(dir / "p");
  const i64 files = i64(before.files().size());
  REQUIRE(files > 3);
  CHECK(before.mapped() == 0);
  const data::ShardCheck check = data::verify_shards(dir / "p");
  CHECK(check.damage.empty());
  CHECK(check.stamp == dir / "p/VERIFIED");
  const data::Shards mapped(dir / "p");
  CHECK(mapped.mapped() == files);
  CHECK(data::Shards(dir / "p", {.map = false}).mapped() == 0);
  CHECK(data::Shards(before.files()[1]).mapped() == 1);  // one file of the pack
  CHECK(all_bytes(mapped) == all_bytes(before));
  const i64 rows[] = {39, 0, 7};
  CHECK(mapped.batch(rows).x.to_vector<u8>() == before.batch(rows).x.to_vector<u8>());
  // The stamp outlives a renamed folder, and a damaged one is none.
  fs::rename(dir / "p", dir / "q");
  CHECK(data::Shards(dir / "q").mapped() == files);
  const std::string good = slurp(dir / "q/VERIFIED");
  for (size_t i = 0; i < good.size(); i += wt_test::whole_walk() ? 1 : 7) {
    std::string bad = good;
    bad[i] ^= 1;
    spit(dir / "q/VERIFIED", bad);
    CHECK(data::Shards(dir / "q").mapped() == 0);
    spit(dir / "q/VERIFIED", good.substr(0, i));
    CHECK(data::Shards(dir / "q").mapped() == 0);
  }
}

TEST_CASE("mapped shards: a file that changed since the check is read", "[shards]") {
  const TempDir dir;
  pack_numbers(dir / "p", 40, 100, 1000);
  (void)data::verify_shards(dir / "p");
  const data::Shards all(dir / "p");
  const std::string file = all.files()[1], content = slurp(file);
  // The same bytes and the same time: the inode's own time tells.
  const auto time = fs::last_write_time(file);
  spit(file, content);
  fs::last_write_time(file, time);
  CHECK(data::Shards(dir / "p").mapped() == all.mapped() - 1);
  CHECK(all_bytes(data::Shards(dir / "p")).size() == 4000);
  // One file alone is checked again; the other lines stay.
  CHECK(data::verify_shards(file).damage.empty());
  CHECK(data::Shards(dir / "p").mapped() == all.mapped());
  // Damage that is found takes the stamp of the pack away.
  std::string bad = content;
  bad[bad.size() / 3] ^= 4;
  spit(file, bad);
  CHECK(data::verify_shards(dir / "p").damage.size() == 1);
  CHECK(!fs::exists(dir / "p/VERIFIED"));
  CHECK(data::Shards(dir / "p").mapped() == 0);
}

TEST_CASE("mapped shards: a stamp that cannot be written is no error of the check", "[shards]") {
  const TempDir dir;
  pack_numbers(dir / "p", 3, 10, 1000);
  const FaultyFiles faults(1, EROFS);
  const data::ShardCheck check = data::verify_shards(dir / "p");
  CHECK(check.damage.empty());
  CHECK(check.records == 3);
  CHECK(check.stamp.empty());
  CHECK(mentions(check.no_stamp, "cannot be written"));
}

TEST_CASE("mapped shards: a file cut short while it is mapped is an error, no signal", "[shards]") {
  const TempDir dir;
  pack_numbers(dir / "p", 4, 100'000, 1 << 20);
  (void)data::verify_shards(dir / "p");
  const data::Shards s(dir / "p");
  REQUIRE(s.mapped() == 1);
  const std::string file = s.files()[0];
  const int code = in_child([&] {  // what it would be without a look at the file
    ::signal(SIGBUS, SIG_DFL);
    const auto stamp = data::detail::read_stamp(dir / "p");
    const auto map = data::detail::ShardMap::of(file, stamp.at(0));
    const std::string_view bytes = map->bytes(file, 300'000, 10);
    if (::truncate(file.c_str(), 4096) != 0) return 0;
    volatile char read = bytes[0];
    (void)read;
    return 0;
  });
  CHECK(code == -SIGBUS);
  pack_numbers(dir / "q", 4, 100'000, 1 << 20);
  (void)data::verify_shards(dir / "q");
  const data::Shards t(dir / "q");
  CHECK(in_child([&] {
          if (t.get(3).size() != 2 || ::truncate(t.files()[0].c_str(), 4096) != 0) return 1;
          (void)t.get(3);
          return 2;
        }) == 98);
  CHECK(mentions(message_of([&] { (void)t.get(0); }), "changed while it was mapped: it had 400"));
}

TEST_CASE("mapped shards: 600 MiB are gone through in less than 100 MiB", "[shards]") {
  const TempDir dir;
  const i64 n = wt_test::whole_walk() ? 600 : 150;  // in_little_memory() does not look there
  pack_numbers(dir / "p", n, 1 << 20, u64{64} << 20);
  CHECK(data::verify_shards(dir / "p").damage.empty());
  for (const bool shuffle : {false, true})
    CHECK(in_little_memory(100 << 20, [&] {
            const data::Shards s(dir / "p");
            i64 sum = 0;
            for (auto& [x, y] : data::Loader{s, {.batch = 2, .shuffle = shuffle, .workers = 2}})
              for (const i64 v : y.to_vector<i64>()) sum += v;
            return s.mapped() == i64(s.files().size()) && sum == n * (n - 1) / 2;
          }) == 0);
}
