#include "warptape/core/safetensors.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "warptape/core/error.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using wt::DType;
using wt::SafetensorsFile;
using wt::SafetensorsItem;

namespace {

// A file made by hand, not by the writer.
std::string raw_file(const std::string& header, const std::string& data = "") {
  std::string out(8, '\0');
  const wt::u64 size = header.size();
  std::memcpy(out.data(), &size, 8);
  return out + header + data;
}

const std::string kGoldenHeader =
    R"({"__metadata__":{"k":"v"},"w.b":{"dtype":"BOOL","shape":[3],"data_offsets":[24,27]},)"
    R"("w.a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("z":{"dtype":"I64","shape":[0,5],"data_offsets":[24,24]}}   )";
const std::string kGoldenData = std::string(24, '\x3f') + std::string("\1\0\1", 3);

// Content of a file in words; "rejected: ..." if the reader refuses it.
std::string describe(const std::string& path, wt::ParseLimits limits = {}) {
  try {
    auto file = SafetensorsFile::open(path, limits);
    std::string out;
    for (const auto& [key, value] : file.metadata()) out += key + "=" + value + ";";
    for (const auto& e : file.entries()) {
      std::string bytes(e.bytes(), '\0');
      file.read(e, bytes.data());
      out += e.name + ":" + wt::dtype_name(e.dtype) + ":";
      for (const wt::i64 size : e.shape) out += std::to_string(size) + ",";
      out += ":" + bytes + ";";
    }
    return out;
  } catch (const wt::DataError& e) {
    return std::string("rejected: ") + e.what();
  }
}

bool rejected(const std::string& text) { return text.starts_with("rejected: "); }

// The message for a file of this header and data; empty if it is accepted.
std::string refusal(const std::string& header, const std::string& data = "") {
  const TempDir dir;
  spit(dir / "f", raw_file(header, data));
  const std::string text = describe(dir / "f");
  return rejected(text) ? text.substr(10) : "";
}

std::string checkpoint(const std::string& path) {
  const float w[] = {1, 2, 3, 4, 5, 6};
  const double step = 12;
  const bool flags[] = {true, false};
  const SafetensorsItem items[] = {{"model.w", DType::f32, {2, 3}, w},
                                   {"step", DType::f64, {}, &step},
                                   {"flags", DType::boolean, {2}, flags},
                                   {"none", DType::f16, {0}, nullptr}};
  wt::write_safetensors(path, items, {.metadata = {{"format", "pt"}}, .checksums = true});
  return slurp(path);
}

}  // namespace

TEST_CASE("safetensors: a hand-made file is read") {
  const TempDir dir;
  spit(dir / "f", raw_file(kGoldenHeader, kGoldenData));
  auto file = SafetensorsFile::open(dir / "f");
  REQUIRE(file.entries().size() == 3);
  CHECK(file.entries()[0].name == "w.a");  // by position in the file
  const wt::TensorEntry* const b = file.find("w.b");
  REQUIRE(b != nullptr);
  CHECK(b->dtype == DType::boolean);
  CHECK(b->shape == std::vector<wt::i64>{3});
  bool flags[3];
  file.read(*b, flags);
  CHECK((flags[0] && !flags[1] && flags[2]));
  CHECK(file.find("w") == nullptr);
  CHECK(*file.find_metadata("k") == "v");
  CHECK(file.find_metadata("q") == nullptr);
  CHECK_FALSE(file.has_checksums());
}

TEST_CASE("safetensors: an empty file of the format and zero-size tensors are read") {
  CHECK(refusal("{}") == "");
  CHECK(refusal("{  }      ") == "");
  CHECK(refusal(R"({"__metadata__":{}})") == "");
  CHECK(refusal(R"({"a":{"dtype":"F8_E4M3","shape":[],"data_offsets":[0,1]}})", "x") == "");
  CHECK(
      refusal(
          R"({"a":{"dtype":"F32","shape":[4611686,0,281474976710656,281474976710656],"data_offsets":[0,0]}})") ==
      "");
}

// As safetensors 0.8.0 does.
TEST_CASE("safetensors: white space behind the header and further keys of an entry pass") {
  for (const char* header : {"{}\n", "{}\t", "{ \n}\r\n  ", "{}   \n\n"})
    CHECK(refusal(header) == "");
  for (const char* more : {R"("x":1,)", R"("x":null,"y":[1,{"z":"}"}],)", R"("x":{},"x":[],)"}) {
    const std::string header = std::string("{\"a\":{") + more +
                               R"("dtype":"U8","shape":[1],"data_offsets":[0,1]}})" + "\n";
    CHECK(refusal(header, "1") == "");
  }
  CHECK(refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"data_offset":[1,2]}})",
                "1") == "");
}

TEST_CASE("safetensors: cut at any byte, a file is refused") {
  const TempDir dir;
  const std::string golden =
      GENERATE(false, true) ? checkpoint(dir / "c") : raw_file(kGoldenHeader, kGoldenData);
  for (std::size_t n = 0; n < golden.size(); ++n) {
    CAPTURE(n);
    spit(dir / "f", golden.substr(0, n));
    CHECK(rejected(describe(dir / "f")));
  }
  spit(dir / "f", golden);
  CHECK_FALSE(rejected(describe(dir / "f")));
  spit(dir / "f", golden + '\0');  // nothing may follow the data
  CHECK(rejected(describe(dir / "f")));
}

TEST_CASE("safetensors: with checksums, any flipped bit of the file is noticed") {
  const TempDir dir;
  const std::string golden = checkpoint(dir / "c");
  int accepted = 0;
  for (std::size_t bit = 0; bit < golden.size() * 8; ++bit) {
    std::string damaged = golden;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    spit(dir / "f", damaged);
    if (!rejected(describe(dir / "f"))) {
      ++accepted;
      CAPTURE(bit);
      CHECK(false);
    }
  }
  CHECK(accepted == 0);
}

TEST_CASE("safetensors: without checksums, a flipped header bit is refused or renames one thing") {
  const TempDir dir;
  const std::string golden = raw_file(kGoldenHeader, kGoldenData);
  spit(dir / "f", golden);
  const std::string whole = describe(dir / "f");
  int renamed = 0;
  for (std::size_t bit = 0; bit < (8 + kGoldenHeader.size()) * 8; ++bit) {
    std::string damaged = golden;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    spit(dir / "f", damaged);
    const std::string seen = describe(dir / "f");
    if (rejected(seen)) continue;
    CAPTURE(bit, seen);
    // The same content but for one bit: of a name, of the metadata, or of the free size of an
    // empty tensor.
    REQUIRE(seen.size() == whole.size());
    int bits = 0;
    for (std::size_t i = 0; i < seen.size(); ++i)
      bits += std::popcount(static_cast<unsigned char>(seen[i] ^ whole[i]));
    CHECK(bits <= 1);
    ++renamed;
  }
  CHECK(renamed > 0);
}

TEST_CASE(
    "safetensors: whatever is done to a file, the reader refuses it or reads it within limits") {
  const TempDir dir;
  FuzzPlan plan(20'000, 11);
  const std::vector<std::string_view> words{"\"",
                                            "\\u0000",
                                            "\\ud800",
                                            "{",
                                            "}",
                                            "[",
                                            "]",
                                            ",",
                                            ":",
                                            "0",
                                            "-1",
                                            "281474976710656",
                                            "1e9",
                                            "\"dtype\":\"F64\",",
                                            "\"shape\":[0],",
                                            "\"data_offsets\":[0,0]",
                                            "\"__metadata__\":{},",
                                            "\"wt.crc32c\":\"00000000\",",
                                            "BF16",
                                            "\xff"};
  const std::string goldens[] = {kGoldenHeader, checkpoint(dir / "c").substr(8)};
  long long accepted = 0;
  for (long long i = 0; i < plan.cases; ++i) {
    std::string body = mutated(goldens[i % 2], plan.random, words);
    // Mostly with a length that fits, so that the header itself is reached.
    const std::string file = i % 8 == 0 ? mutated(raw_file(body, kGoldenData), plan.random, words)
                                        : raw_file(body, i % 2 ? "" : kGoldenData);
    accepted += wt_test::takes_safetensors(file);
  }
  CHECK(accepted > 0);               // some only rename a tensor
  CHECK(accepted < plan.cases / 4);  // and most are damage
}

TEST_CASE("safetensors: every rule of the format has its refusal") {
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return std::string(R"({"a":{"dtype":")") + dtype + R"(","shape":)" + shape +
           R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  const std::string b1 = R"("b":{"dtype":"U8","shape":[1],"data_offsets":)";
  struct Case {
    std::string header, data, message;
  };
  const Case cases[] = {
      {" {}", "", "at byte 8: the header does not start with '{'"},
      {"{}x", "", "at byte 10: only white space may follow"},
      {"{} \n{}", "", "at byte 12: only white space may follow"},
      {"{", "", "expected '\"', found the end"},
      {"{" + a + "," + a + "}", "x", "tensor name 'a' appears twice"},
      {R"({"__metadata__":{"k":"1","k":"2"}})", "", "metadata key 'k' appears twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "", "'__metadata__' appears twice"},
      {R"({"__metadata__":{"k":1}})", "", "not a string"},
      {entry("F33", "[1]", "[0,4]"), "1234", "unknown dtype 'F33'; supported are F64 F32"},
      {entry("F4", "[2]", "[0,1]"), "1", "unsupported dtype 'F4'"},
      {entry("F32", "[-1]", "[0,4]"), "1234", "expected an integer from 0"},
      {entry("F32", "[1.0]", "[0,4]"), "1234", "expected an integer from 0"},
      {entry("F32", "[01]", "[0,4]"), "1234", "leading zero"},
      {entry("F32", "[281474976710657]", "[0,4]"), "1234", "expected an integer from 0"},
      {entry("F32", "[281474976710656,281474976710656]", "[0,0]"), "", "too large to address"},
      {entry("F32", "[2]", "[0,4]"), "1234", "[2] f32 needs 8 bytes"},
      {entry("F32", "[1]", "[4,0]"), "1234", "needs 4 bytes"},
      {entry("F32", "[1]", "[4,8]"), "12345678", "leaving a hole after 0"},
      {entry("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), "1", "more than 16 dimensions"},
      {entry("U8", "[1]", "[0,1]"), "", "(truncated download?)"},
      {entry("U8", "[1]", "[0,1]"), "12", "data after the end"},
      {entry("BOOL", "[2]", "[0,2]"), "\1\2", "is bool and holds 2"},
      {"{" + a + "," + b1 + "[0,1]}}", "12", "overlapping data that ends at 1"},
      {"{" + a + "," + b1 + "[2,3]}}", "123", "leaving a hole after 1"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", "1", "needs dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1",
       "has 'dtype' twice"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":}})", "1",
       "expected a JSON value"},
      {R"({"a":{"dtype":"U8","shape":[1],"x":[0,1]}})", "1", "needs dtype, shape and data_offsets"},
      {"{\"\xff\":{}}", "", "not UTF-8"},
      {R"({"\ud800":{}})", "", "lone surrogate"},
      {R"({"__metadata__":{"wt.crc32c":"0000000g"}})", "", "not eight hexadecimal digits"},
      {R"({"__metadata__":{"wt.crc32c":"00000000"}})", "", "the header is damaged"},
      {R"({"__metadata__":{"wt.crc32c:a":"00000000"},)" + a + "}", "1",
       "header's own checksum is missing"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.header, c.message);
    const std::string text = refusal(c.header, c.data);
    INFO(text);
    CHECK(text.find(c.message) != text.npos);
    CHECK(text.find(": at byte ") != text.npos);
  }
}

TEST_CASE("safetensors: the header's length is checked before anything is allocated") {
  const TempDir dir;
  for (const wt::u64 size :
       {wt::u64{3}, wt::u64{100'000'000}, wt::u64{100'000'001}, wt::u64{1} << 63, ~wt::u64{0}}) {
    std::string file(8, '\0');
    std::memcpy(file.data(), &size, 8);
    spit(dir / "f", file + "{}");
    CAPTURE(size);
    CHECK(rejected(describe(dir / "f")));
  }
  CHECK_THROWS_AS(SafetensorsFile::open(dir.path), wt::DataError);
  CHECK_THROWS_AS(SafetensorsFile::open(dir / "absent"), wt::DataError);
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  CHECK_THROWS_AS(SafetensorsFile::open(dir / "fifo"), wt::DataError);  // and does not wait
}

TEST_CASE("safetensors: limits of the caller hold") {
  const TempDir dir;
  spit(dir / "f", raw_file(kGoldenHeader, kGoldenData));
  CHECK_FALSE(rejected(describe(dir / "f", {.max_bytes = 27})));
  CHECK(describe(dir / "f", {.max_bytes = 26}).find("limit of 26 bytes") != std::string::npos);
  CHECK(rejected(describe(dir / "f", {.max_header = 100})));
  CHECK(describe(dir / "f", {.max_items = 2}).find("limit of 2") != std::string::npos);
}

TEST_CASE("safetensors: names in messages are escaped and cut") {
  const std::string text =
      refusal(R"({"\u001b[31m)" + std::string(500, 'n') + R"(":{"dtype":"Q"}})");
  CHECK(text.find('\x1b') == text.npos);
  CHECK(text.find("\\x1b[31mnnn") != text.npos);
  CHECK(text.find("...") != text.npos);
}

TEST_CASE("safetensors: what is written is read back bit for bit, in one canonical form") {
  const TempDir dir;
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> storage;
    std::vector<SafetensorsItem> items;
    const int count = int(random() % 8);
    for (int i = 0; i < count; ++i) {
      SafetensorsItem item;
      item.name = "t\"" + std::to_string(i) + (i % 2 ? "\xC3\xA9/\n" : "");
      item.dtype = DType(random() % wt::kNumDTypes);
      wt::u64 bytes = static_cast<wt::u64>(wt::item_size(item.dtype));
      for (std::size_t d = random() % 4; d > 0; --d) {
        item.shape.push_back(wt::i64(random() % 5));
        bytes *= static_cast<wt::u64>(item.shape.back());
      }
      std::string data(bytes, '\0');
      for (char& c : data) c = char(item.dtype == DType::boolean ? random() % 2 : random());
      storage.push_back(data);
      items.push_back(item);
    }
    for (int i = 0; i < count; ++i) items[i].data = storage[i].data();
    const wt::SafetensorsOptions options{
        .metadata = {{"a", "1"}, {"b\n", "\"wt.crc32c\":\"00000000\""}},
        .checksums = round % 2 == 0,
        .durable = false};
    wt::write_safetensors(dir / "f", items, options);
    auto file = SafetensorsFile::open(dir / "f");
    REQUIRE(file.entries().size() == items.size());
    CHECK(file.metadata() == options.metadata);
    CHECK(file.has_checksums() == options.checksums);
    for (int i = 0; i < count; ++i) {
      const wt::TensorEntry* const e = file.find(items[i].name);
      REQUIRE(e != nullptr);
      CHECK(e->dtype == items[i].dtype);
      CHECK(e->shape == items[i].shape);
      REQUIRE(e->bytes() == storage[i].size());
      std::string back(storage[i].size(), '\0');
      file.read(*e, back.data());
      CHECK(back == storage[i]);
    }
    std::reverse(items.begin(), items.end());
    wt::write_safetensors(dir / "g", items, options);
    CHECK(slurp(dir / "f") == slurp(dir / "g"));
  }
}

TEST_CASE("safetensors: what the format cannot hold is a usage error and writes nothing") {
  const TempDir dir;
  const float x = 0;
  const auto attempt = [&](std::vector<SafetensorsItem> items,
                           wt::SafetensorsOptions options = {}) {
    wt::write_safetensors(dir / "f", items, options);
  };
  CHECK_THROWS_AS(attempt({{"a", DType::f32, {}, &x}, {"a", DType::f32, {}, &x}}), wt::UsageError);
  CHECK_THROWS_AS(attempt({{"__metadata__", DType::f32, {}, &x}}), wt::UsageError);
  CHECK_THROWS_AS(attempt({{"\xff", DType::f32, {}, &x}}), wt::UsageError);
  CHECK_THROWS_AS(attempt({{"a", DType::f32, {-1}, &x}}), wt::UsageError);
  CHECK_THROWS_AS(attempt({{"a", DType::f32, {1}, nullptr}}), wt::UsageError);
  CHECK_THROWS_AS(attempt({{"a", DType::f32, {1 << 30, 1 << 30}, &x}}), wt::UsageError);
  CHECK_THROWS_AS(attempt({}, {.metadata = {{"wt.crc32c", "x"}}}), wt::UsageError);
  CHECK(dir.count() == 0);
}

TEST_CASE("safetensors: what reads back wrong after writing keeps the old file") {
  const TempDir dir;
  const std::string before = checkpoint(dir / "f");
  const unsigned char two = 2;  // no bool
  const SafetensorsItem item{"b", DType::boolean, {1}, &two};
  CHECK_THROWS_AS(wt::write_safetensors(dir / "f", {&item, 1}), wt::CheckpointError);
  CHECK(slurp(dir / "f") == before);
  CHECK(dir.count() == 1);
}

TEST_CASE("safetensors: the Nth failing system call of a save leaves old or new, for all N") {
  const TempDir dir;
  const float before = 1, after = 2;
  SafetensorsItem item{"x", DType::f32, {}, &before};
  bool reached = true;
  for (int nth = 1; reached; ++nth) {
    CAPTURE(nth);
    item.data = &before;
    wt::write_safetensors(dir / "f", {&item, 1}, {.checksums = true, .durable = false});
    item.data = &after;
    {
      const FaultyFiles faults(nth, ENOSPC);
      try {
        wt::write_safetensors(dir / "f", {&item, 1}, {.checksums = true});
      } catch (const wt::CheckpointError&) {}
      reached = faults.reached();
    }
    auto file = SafetensorsFile::open(dir / "f");
    float value = 0;
    file.read(file.entries().at(0), &value);
    CHECK((value == before || value == after));
    if (!reached) CHECK(value == after);
    CHECK(dir.count() == 1);
  }
}

TEST_CASE("safetensors: a file of another implementation survives a round trip") {
  const std::string path = test_data("safetensors/model.safetensors");
  if (path.empty()) SKIP_TEST("no shared/data/safetensors/model.safetensors; set WT_TEST_DATA");
  auto file = SafetensorsFile::open(path);
  REQUIRE(file.entries().size() == 2);
  CHECK(file.entries()[0].name == "weight1");
  CHECK(file.entries()[1].shape == std::vector<wt::i64>{16, 16});
  std::vector<std::vector<double>> data;
  std::vector<SafetensorsItem> items;
  for (const wt::TensorEntry& e : file.entries()) {
    CHECK(e.dtype == DType::f64);
    data.emplace_back(e.bytes() / 8);
    file.read(e, data.back().data());
    for (const double x : data.back()) CHECK((x >= 0 && x < 1));
    items.push_back({e.name, e.dtype, e.shape, nullptr});
  }
  for (std::size_t i = 0; i < items.size(); ++i) items[i].data = data[i].data();
  const TempDir dir;
  wt::write_safetensors(dir / "copy", items);
  CHECK(describe(dir / "copy") == describe(path));
}
