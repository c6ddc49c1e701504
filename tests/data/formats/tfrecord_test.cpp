// TFRecord files and tf.Examples: the real ones give the rows beside them, damaged ones nothing.
#include "warptape/data/tfrecord.h"

#include <cctype>
#include <filesystem>
#include <sstream>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/data/loader.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/gzip.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using namespace wt;
using namespace std::string_literals;
using Bytes = std::vector<std::string>;

namespace {

std::vector<Bytes> rows_of_csv(const std::string& path) {
  std::vector<Bytes> rows;
  std::istringstream text(slurp(path));
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    Bytes cells(1);
    for (const char c : line) c == ',' ? (void)cells.emplace_back() : cells.back().push_back(c);
    rows.push_back(cells);
  }
  return rows;
}

// A feature as the CSV file writes it: nothing is NA, but of a set it is the empty set.
std::string as_cell(const data::TfFeature& f, bool set) {
  if (const auto* words = std::get_if<Bytes>(&f)) {
    std::string cell;
    for (const std::string& w : *words) cell += (cell.empty() ? "" : " ") + w;
    return cell;
  }
  if (const auto* v = std::get_if<std::vector<float>>(&f)) return str(v->at(0));
  if (const auto* v = std::get_if<std::vector<i64>>(&f)) return str(v->at(0));
  return set ? "" : "NA";
}

data::TfExample tf_sample(i64 i) {
  return {{"bytes", Bytes{"", std::string(size_t(i), '\xff')}},
          {"none", {}},
          {"x", std::vector<float>{float(i), 0.5f, -1}},
          {"y", std::vector<i64>{-i}}};
}
std::string tf_file(const TempDir& dir, i64 n) {
  data::TfRecordWriter w(dir / "f");
  for (i64 i = 0; i < n; ++i) w.add(data::tf_example_bytes(tf_sample(i)));
  CHECK(!std::filesystem::exists(dir / "f"));
  w.finish();
  return dir / "f";
}
std::vector<std::string> records_of(const std::string& path, const data::TfRecordOptions& o = {}) {
  data::TfRecordReader reader(path, o);
  std::vector<std::string> records;
  for (std::string r; reader.next(r);) records.push_back(r);
  std::string more;
  CHECK(!reader.next(more));
  return records;
}

}  // namespace

TEST_CASE("tfrecord: the real shards give the rows of the CSV beside them") {
  const std::string csv = test_data("tfrecord/toy.csv");
  if (csv.empty()) SKIP_TEST("shared/data/tfrecord");
  const std::string folder = csv.substr(0, csv.rfind('/'));
  const std::vector<Bytes> rows = rows_of_csv(csv);
  for (const std::string name : {"/toy.nocompress-tfe-tfrecord-*", "/toy.tfe-tfrecord-*"}) {
    if (!WARPTAPE_HAS_ZLIB && name.find("nocompress") == name.npos) continue;
    const data::TfRecords set(folder + name, {.x = "Num_1", .y = "Bool_1"});
    CHECK(set.files().size() == 2);
    REQUIRE(set.size() == i64(rows.size()) - 1);
    for (i64 i = 0; i < set.size(); ++i) {
      const data::TfExample example = set.get(i);
      CHECK(example.size() == rows[0].size());
      for (size_t k = 0; k < rows[0].size(); ++k) {
        const bool is_set = rows[0][k].starts_with("Cat_set");
        std::string want = rows[size_t(i) + 1][k];
        // Its writer made small letters of the sets' words, and nothing of an empty word.
        if (is_set)
          for (char& c : want) c = char(std::tolower(c));
        if (want.empty() && !is_set) want = "NA";
        const data::TfFeature* const f = data::find_feature(example, rows[0][k]);
        REQUIRE(f);
        CHECK(as_cell(*f, is_set) == want);
      }
      CHECK(data::parse_tf_example(data::tf_example_bytes(example)) == example);
    }
    const i64 all[] = {3, 0, 1, 2};
    const auto [x, y] = set.batch(all);
    CHECK(x.to_vector<float>() == std::vector<float>{4, 1, 2, 3});
    CHECK(y.to_vector<i64>() == std::vector<i64>{1, 0, 1, 0});
  }
}

TEST_CASE("tfrecord: written and read back, in batches, in any order") {
  const TempDir dir;
  const std::string path = tf_file(dir, 20);
  const data::TfRecords set(path);
  REQUIRE(set.size() == 20);
  for (i64 i = 0; i < 20; ++i) CHECK(set.get(i) == tf_sample(i));
  i64 seen = 0;
  for (auto& [x, y] : data::Loader{set, {.batch = 8, .shuffle = true}}) {
    CHECK(x.shape() == Shape{y.size(0), 3});
    CHECK(y.dtype() == DType::i64);
    seen += y.size(0);
  }
  CHECK(seen == 20);
  const i64 row[] = {1};
  CHECK_THROWS_AS((void)set.get(20), IndexError);
  CHECK_THROWS_AS((void)data::TfRecords(path, {.x = "bytes"}).batch(row), UsageError);
  CHECK_THROWS_AS((void)data::TfRecords(path, {.x = "none"}).batch(row), UsageError);
  CHECK_THROWS_AS((void)data::TfRecords(path, {.x = "z"}).batch(row), UsageError);
  CHECK_THROWS_AS(data::TfRecords(dir / "g*"), DataError);
  spit(dir / "empty", "");
  CHECK(data::TfRecords(dir / "empty").size() == 0);
}

TEST_CASE("tfrecord: cut at any byte or one bit flipped, a file is refused") {
  const TempDir dir;
  const std::string path = tf_file(dir, 3), good = slurp(path);
  const std::vector<std::string> records = records_of(path);
  std::vector<size_t> ends{0};
  for (const std::string& r : records) ends.push_back(ends.back() + r.size() + 16);
  for (size_t n = 0; n < good.size(); ++n) {
    spit(path, std::string_view(good).substr(0, n));
    const size_t whole = size_t(std::upper_bound(ends.begin(), ends.end(), n) - ends.begin()) - 1;
    CHECK(records_of(path, {.allow_partial_tail = true}).size() == whole);
    CHECK(data::TfRecords(path, {.allow_partial_tail = true}).size() == i64(whole));
    if (n == ends[whole]) {
      CHECK(records_of(path).size() == whole);
      continue;
    }
    CHECK_THROWS_AS(records_of(path), DataError);
    CHECK_THROWS_AS(data::TfRecords(path), DataError);
  }
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] ^= char(1 << bit % 8);
    spit(path, bad);
    CHECK_THROWS_AS(records_of(path, {.allow_partial_tail = true}), DataError);
  }
}

#if WARPTAPE_HAS_ZLIB
// RFC 1950: a head of two bytes, stored blocks, Adler-32.
static std::string zlib_stored(const std::string& head, std::string_view content) {
  const auto n = u16(content.size()), other = u16(~n);
  u32 a = 1, b = 0;
  for (const char c : content) a = (a + u8(c)) % 65521, b = (b + a) % 65521;
  return head + '\x01' + char(n) + char(n >> 8) + char(other) + char(other >> 8) +
         std::string(content) + char(b >> 8) + char(b) + char(a >> 8) + char(a);
}

TEST_CASE("tfrecord: TensorFlow's ZLIB is read, and told from a plain file that begins like it") {
  const TempDir dir;
  const std::string plain = slurp(tf_file(dir, 4));
  const std::vector<std::string> want = records_of(dir / "f");
  for (const std::string head : {"\x78\x01", "\x78\x5e", "\x78\x9c", "\x78\xda"}) {
    const std::string packed = zlib_stored(head, plain);
    spit(dir / "z", packed);
    CHECK(records_of(dir / "z") == want);
    const data::TfRecords set(dir / "z");
    CHECK(set.size() == 4);
    CHECK(set.bytes(2) == want[2]);
    for (size_t n = 1; n < packed.size(); ++n) {
      spit(dir / "z", packed.substr(0, n));
      REQUIRE_THROWS_AS(records_of(dir / "z"), DataError);
    }
    std::string bad = packed;
    bad.back() ^= 1;
    spit(dir / "z", bad);
    CHECK(mentions(message_of([&] { records_of(dir / "z"); }), "damaged zlib data"));
  }
  // A plain file whose first record has 0x9c78 bytes.
  data::TfRecordWriter w(dir / "like");
  const std::string record(0x9c78, 'x');
  w.add(record);
  w.finish();
  REQUIRE(slurp(dir / "like").starts_with("\x78\x9c"));
  CHECK(records_of(dir / "like") == std::vector<std::string>{record});
  CHECK(data::TfRecords(dir / "like").bytes(0) == record);
  // Its writer was killed within the first length.
  const std::string like = slurp(dir / "like");
  for (size_t n = 1; n < 12; ++n) {
    spit(dir / "cut", like.substr(0, n));
    data::TfRecordReader reader(dir / "cut", {.allow_partial_tail = true});
    std::string none;
    CHECK_FALSE(reader.next(none));
  }
  // A stream of nothing is one.
  spit(dir / "empty", std::string("\x78\x9c\x03\0\0\0\0\x01", 8));
  CHECK(records_of(dir / "empty").empty());
}
#endif

TEST_CASE("tfrecord: limits, and a file that shrinks or changes while it is open") {
  const TempDir dir;
  const std::string path = tf_file(dir, 5);
  const u64 size = data::TfRecords(path).bytes(0).size();
  CHECK_THROWS_AS(records_of(path, {.limits = {.max_bytes = size - 1}}), DataError);
  CHECK_THROWS_AS(data::TfRecords(path, {.limits = {.max_items = 4}}), DataError);
  CHECK(data::TfRecords(path, {.limits = {.max_items = 5}}).size() == 5);
  const data::TfRecords open(path);
  std::filesystem::resize_file(path, 30);
  CHECK_THROWS_AS((void)open.get(4), DataError);
  std::filesystem::remove(path);
  CHECK_THROWS_AS((void)open.get(4), DataError);
}

TEST_CASE("tf.Example: lists packed or not, unknown fields, repeated names, messages in parts") {
  const auto message = [](char tag, const std::string& content) {
    return std::string{tag, char(content.size())} + content;
  };
  const auto example = [&](const std::string& feature) {
    return message(0x0a, message(0x0a, message(0x0a, "a") + message(0x12, feature)));
  };
  const auto feature_a = [&](const std::string& bytes) {
    return *data::find_feature(data::parse_tf_example(bytes), "a");
  };
  using F = data::TfFeature;
  const std::string ten = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";  // -1
  CHECK(feature_a(example(message(0x1a, "\x08\x05\x08" + ten))) == F(std::vector<i64>{5, -1}));
  CHECK(feature_a(example(message(0x1a, message(0x0a, "\x05" + ten) + "\x08\x07"))) ==
        F(std::vector<i64>{5, -1, 7}));
  CHECK(feature_a(example(message(0x12, "\x0d\0\0\x80\x3f"s))) == F(std::vector<float>{1}));
  CHECK(feature_a(example(message(0x12, message(0x0a, "\0\0\x80\x3f"s)))) ==
        F(std::vector<float>{1}));
  CHECK(feature_a(example(message(0x0a, ""))) == F(Bytes{}));
  // Unknown: varint, 64 bits, 32 bits, bytes.
  const std::string unknown =
      "\x78\x01\x79" + std::string(8, 'u') + "\x7d" + std::string(4, 'u') + message(0x7a, "uu");
  CHECK(feature_a(unknown + example(unknown + message(0x1a, unknown + "\x08\x05"))) ==
        F(std::vector<i64>{5}));
  const std::string one = example(message(0x1a, "\x08\x01")), two = example(message(0x12, ""));
  CHECK(feature_a(one + two) == F(std::vector<float>{}));  // the last one of a name counts
  CHECK(feature_a(example(message(0x1a, "\x08\x01") + message(0x1a, "\x08\x02"))) ==
        F(std::vector<i64>{1, 2}));
  CHECK(data::parse_tf_example("").empty());
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    CHECK(mentions(message_of([&] { (void)data::parse_tf_example(bytes, "f", 100); }), why));
  };
  refused("\x0b", "f: at byte 101: tf.Example: a group");
  refused("\x0c", "a group");
  refused("\x0e", "wire type 6");
  refused(std::string("\x02\0", 2), "field number 0");
  refused(example(message(0x1a, "\x08\xff" + ten)), "a varint of more than 64 bits");
  refused(std::string("\x0a\x7f"), "127 bytes are needed, 0 are left");
  refused(example(message(0x12, message(0x0a, "abc"))), "4 bytes are needed");
  // Deep nesting in unknown fields costs no stack.
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "\x7b";
  refused(deep, "a group");
}

TEST_CASE("tfrecord: whatever is done to a file, the reader refuses it or reads what is there") {
  const TempDir dir;
  const std::string golden = slurp(tf_file(dir, 2)), packed = wt_test::gzip_stored(golden);
  REQUIRE(wt_test::takes_tfrecord(golden));
  const std::vector<std::string_view> words{"\xff\xff\xff\xff", std::string_view("\0\0\0\0", 4),
                                            "\x1f\x8b\x08", "\x80"};
  FuzzPlan plan(10'000, 7);
  const long long accepted =
      taken_of(plan, {packed, golden, golden, golden}, words, wt_test::takes_tfrecord);
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases / 2);
}

TEST_CASE("tf_example: whatever is done to one, the reader refuses it or reads what is there") {
  const std::string golden = data::tf_example_bytes(tf_sample(3));
  const std::vector<std::string_view> words{
      "\xff\xff\xff\xff\xff",    "\x0a", "\x0b", "\x12\x02", "\x1a",
      std::string_view("\0", 1), "\x80"};
  FuzzPlan plan(10'000, 8);
  const long long accepted = taken_of(plan, {golden}, words, wt_test::takes_tf_example);
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases);
}
