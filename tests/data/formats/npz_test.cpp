// Archives of arrays: NumPy's own, hand-made and damaged ones.
#include "warptape/data/npz.h"

#include <cstring>
#include <fstream>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/core/npy.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/gzip.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace wt::data;

namespace {

// What NumPy wrote: "stored" or "deflated" (tools/generators/make_data_reference.py).
std::string numpy_archive(const std::string& name) {
  std::ifstream in(reference::reference_path("data/npz"));
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name + ": ")) continue;
    std::string out;
    for (size_t i = name.size() + 2; i + 1 < line.size(); i += 2)
      out += char(std::stoi(line.substr(i, 2), nullptr, 16));
    return out;
  }
  return "";
}

// Everything in an archive is read, into `content` if there is one; "" or what is refused.
std::string refusal(const std::string& bytes, const ParseLimits& limits = {},
                    std::string* content = nullptr) {
  const TempDir dir;
  spit(dir / "f.npz", bytes);
  try {
    const NpzFile f(dir / "f.npz", limits);
    for (const std::string& name : f.names()) {
      const Tensor t = f.read(name);
      if (content) *content += str(name, " ", describe(t), " ", t, "\n");
    }
    return "";
  } catch (const DataError& e) {
    return e.what();
  }
}

// An archive by our own writer with x = [1, 2, 3] u8.
std::string small_archive() {
  const TempDir dir;
  write_npz(dir / "f", {{"x", tensor(std::vector<u8>{1, 2, 3})}});
  return slurp(dir / "f");
}

template <class T>
std::string patched(std::string bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

constexpr size_t kEnd = 22, kEntry = kEnd + 46 + 5;  // behind them lies "x.npy"

}  // namespace

TEST_CASE("npz: NumPy's archives, stored and deflated") {
  for (const std::string kind : {"stored", "deflated"}) {
    if (kind == "deflated" && !WARPTAPE_HAS_ZLIB) SKIP_TEST("this build has no zlib");
    const TempDir dir;
    spit(dir / "f.npz", numpy_archive(kind));
    const NpzFile f(dir / "f.npz");
    CHECK(f.names() == std::vector<std::string>{"x", "y", "b"});
    CHECK(f.contains("y"));
    CHECK(!f.contains("y.npy"));
    const Tensor x = f.read("x"), y = f.read("y"), b = f.read("b");
    CHECK(x.dtype() == DType::i16);
    CHECK(x.shape() == Shape{2, 3});
    CHECK(x.to_vector<i64>() == std::vector<i64>{0, 1, 2, 3, 4, 5});
    CHECK(y.strides() == Shape{1, 2});  // Fortran order is a permuted view
    CHECK(y.to_vector<double>() == std::vector<double>{0, 1, 2, 3, 4, 5});
    CHECK(b.to_vector<bool>() == std::vector<bool>{true, false});
    CHECK(f.read("x").to_vector<i64>() == x.to_vector<i64>());
    CHECK(mentions(message_of([&] { (void)f.read("yy"); }), "has no array 'yy'"));
    CHECK_THROWS_AS((void)f.read("../x"), UsageError);
  }
}

TEST_CASE("npz: what is written is read back, empty and scalar arrays too") {
  const TempDir dir;
  const Tensor a = rand({3, 4, 5}), e = zeros({0, 3}), s = tensor(2.5);
  write_npz(dir / "f", {{"a.b-c_1", a}, {"e", e}, {"s", s}, {"t", a.t()}});
  const NpzFile f(dir / "f");
  CHECK(f.read("a.b-c_1").to_vector<float>() == a.to_vector<float>());
  CHECK(f.read("e").shape() == Shape{0, 3});
  CHECK(f.read("s").item() == 2.5);
  CHECK(f.read("t").shape() == Shape{3, 5, 4});
  CHECK(f.read("t").to_vector<float>() == a.t().to_vector<float>());
  const std::string once = slurp(dir / "f");
  write_npz(dir / "f", {{"a.b-c_1", a}, {"e", e}, {"s", s}, {"t", a.t()}});
  CHECK(slurp(dir / "f") == once);
  write_npz(dir / "f", {});
  CHECK(NpzFile(dir / "f").names().empty());
  for (const char* name : {"", "a/b", "..", "a b"})
    CHECK_THROWS_AS(write_npz(dir / "f", {{name, a}}), UsageError);
  CHECK_THROWS_AS(write_npz(dir / "f", {{"a", a}, {"a", e}}), UsageError);
  CHECK_THROWS_AS(write_npz(dir / "f", {{"a", a.to(DType::bf16)}}), DtypeError);
  CHECK(NpzFile(dir / "f").names().empty());  // the old file is still there
  CHECK_THROWS_AS(write_npz(dir / "no/f", {{"a", a}}), CheckpointError);
}

TEST_CASE("npy: as a tensor, and a tensor as a file") {
  const TempDir dir;
  const Tensor a = arange(24).view({2, 3, 4}).permute({2, 0, 1});
  data::write_npy(dir / "a.npy", a);
  CHECK(read_npy(dir / "a.npy").shape() == Shape{4, 2, 3});
  CHECK(read_npy(dir / "a.npy").to_vector<i64>() == a.to_vector<i64>());
  data::write_npy(dir / "s.npy", tensor(7));
  CHECK(read_npy(dir / "s.npy").ndim() == 0);
  const std::string header =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }";
  spit(dir / "f", std::string("\x93NUMPY\1\0", 8) + char(header.size()) + '\0' + header + "x");
  CHECK(mentions(message_of([&] { (void)read_npy(dir / "f"); }), "has 9 dimensions"));
  // No bytes, but strides that overflow.
  wt::write_npy(dir / "f", DType::f64, std::vector<i64>{0, i64{1} << 31, i64{1} << 31}, nullptr);
  CHECK_THROWS_AS(read_npy(dir / "f"), DataError);
  CHECK(mentions(message_of([&] { (void)read_npy(dir / "f"); }),
                 "[0, 2147483648, 2147483648] is too large to address"));
  CHECK_THROWS_AS((void)read_npy(dir / "none"), DataError);
}

TEST_CASE("npz: cut at any byte it is refused; with a flipped bit it is refused or the same") {
  for (const std::string kind : {"stored", "deflated"}) {
    if (kind == "deflated" && !WARPTAPE_HAS_ZLIB) SKIP_TEST("this build has no zlib");
    const std::string golden = numpy_archive(kind);
    REQUIRE(golden.size() > 400);
    std::string content;
    REQUIRE(refusal(golden, {}, &content) == "");
    for (size_t n = 0; n < golden.size(); ++n) {
      CAPTURE(kind, n);
      const std::string seen = refusal(golden.substr(0, n));
      REQUIRE(seen.find(": at byte ") != seen.npos);
    }
    REQUIRE(refusal(golden + "x") != "");
    int harmless = 0;
    for (size_t bit = 0; bit < golden.size() * 8; ++bit) {
      std::string damaged = golden;
      damaged[bit / 8] ^= char(1 << bit % 8);
      const std::string seen = refusal(damaged);
      // Versions, times and attributes mean nothing to a reader; all else is covered by a check
      // sum or by a size.
      if (seen.empty())
        ++harmless;
      else
        REQUIRE(seen.find(": at byte ") != seen.npos);
    }
    CHECK(harmless < 3 * 2 * 30 * 8);
  }
}

TEST_CASE("npz: whatever is done to a file, it is read or refused with its place") {
  const std::string golden = numpy_archive(WARPTAPE_HAS_ZLIB ? "deflated" : "stored");
  FuzzPlan plan(5'000, 3);
  using namespace std::string_view_literals;
  const std::vector<std::string_view> words{
      "PK\1\2"sv, "PK\3\4"sv, "PK\5\6"sv, "\xff\xff\xff\xff"sv,
      "\0\0"sv,   "\x08\0"sv, "x.npy"sv,  "\x93NUMPY"sv};
  const long long accepted = taken_of(plan, {golden}, words, wt_test::takes_npz);
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases / 2);
}

TEST_CASE("npz: every trick of a zip archive has its refusal") {
  const std::string good = small_archive();
  REQUIRE(refusal(good) == "");
  const size_t entry = good.size() - kEntry, end = good.size() - kEnd;
  const u32 bytes = u32(good.size()) - u32(kEntry) - 30 - 5;  // of the member
  const std::pair<std::string, std::string> cases[] = {
      {"not a zip", "at byte 0: not an .npz file"},
      {good.substr(0, good.size() - 1), "truncated download?"},
      {patched<u16>(good, entry + 8, 1), "is encrypted"},
      {patched<u16>(good, entry + 10, 12), "is packed by method 12"},
      {patched<u32>(good, entry + 24, 0xffffffff), "is zip64"},
      {patched<u32>(good, entry + 24, bytes + 1), "is stored, yet has"},
      {patched<u16>(patched<u32>(good, entry + 24, 0x7fffffff), entry + 10, 8),
       "more than deflate can hold"},
      {patched<u32>(good, entry + 42, 0x7fffffff), "reaches into the directory"},
      {patched<u32>(good, entry + 42, 1), "member 'x.npy' overlaps the next one"},
      {patched<u16>(good, entry + 34, 1), "in another part"},
      {patched<u32>(good, entry + 16, 0), "does not have the CRC-32"},
      {patched<u32>(good, entry, 0), "not an entry of a zip directory"},
      {patched<u16>(good, entry + 28, 60000), "is cut short"},
      {patched<u32>(good, 0, 0x06054b50), "does not begin here"},
      {patched<u16>(good, 8, 8), "differs from its entry"},
      {patched<char>(good, 30, 'y'), "differs from its entry"},
      {patched<u16>(good, 28, 60000), "is cut short"},
      {patched<u16>(good, end + 4, 1), "in parts"},
      {patched<u16>(patched<u16>(good, end + 8, 0xffff), end + 10, 0xffff),
       "zip64, and its record is not there"},
      {patched<u32>(good, end + 12, 0xffffffff), "zip64, and its record is not there"},
      {patched<u32>(good, end + 16, 0xffffffff), "zip64, and its record is not there"},
      {patched<u16>(patched<u16>(good, end + 8, 2), end + 10, 2), "claims 2 members in 51 bytes"},
      {patched<u16>(patched<u16>(good, end + 8, 0), end + 10, 0), "after the last entry"},
      {patched<u32>(good, end + 16, 3), "does not reach byte"},
      {patched<u16>(good, end + 20, 7), "claims a comment"},
  };
  for (const auto& [file, message] : cases) {
    CAPTURE(message);
    const std::string seen = refusal(file);
    CHECK(mentions(seen, message));
    CHECK(mentions(seen, ": at byte "));
  }
  CHECK(mentions(refusal(good, {.max_bytes = 50}), "the limit is 50"));
  CHECK(mentions(refusal(good, {.max_header = 50}), "passes the limits"));
  // Bytes that no member has: between the last one and the directory, and before the first one.
  std::string between = good.substr(0, entry) + "evil" + good.substr(entry);
  between = patched<u32>(between, between.size() - 6, u32(entry + 4));
  CHECK(mentions(refusal(between), "at byte " + std::to_string(entry) +
                                       ": 4 bytes that belong to nothing follow member 'x.npy'"));
  std::string before = good.substr(0, 4) + "evil-polyglot-head" + good;
  before = patched<u32>(before, before.size() - 6, u32(entry + 22));
  before = patched<u32>(before, before.size() - kEntry + 42, 22);
  CHECK(mentions(refusal(before), "at byte 0: 22 bytes before the first member"));
  const std::string nothing = good.substr(0, 4) + "evil" + good.substr(end);
  CHECK(mentions(refusal(patched<u32>(patched<u32>(patched<u32>(nothing, nothing.size() - 14, 0),
                                                   nothing.size() - 10, 0),
                                      nothing.size() - 6, 8)),
                 "8 bytes before the first member"));
  // What a writer puts behind a member whose header it could not go back to is part of it.
  u32 crc = 0;
  std::memcpy(&crc, good.data() + entry + 16, 4);
  for (const std::string magic : {"", "PK\7\10"}) {
    const std::string sums = magic + wt_test::little_endian(crc) + wt_test::little_endian(bytes) +
                             wt_test::little_endian(bytes);
    std::string described = good.substr(0, entry) + sums + good.substr(entry);
    described = patched<u32>(described, described.size() - 6, u32(entry + sums.size()));
    CHECK(mentions(refusal(described), "bytes that belong to nothing"));
    described = patched<u16>(patched<u16>(described, 6, 8), described.size() - kEntry + 8, 8);
    CHECK(refusal(described) == "");
    described[entry + magic.size()] ^= 1;
    CHECK(mentions(refusal(described), "bytes that belong to nothing"));
  }
  // The same member listed twice.
  std::string twice = good.substr(0, end) + good.substr(entry);
  twice = patched<u16>(patched<u16>(twice, twice.size() - 14, 2), twice.size() - 12, 2);
  twice = patched<u32>(twice, twice.size() - 10, 102);
  CHECK(mentions(refusal(twice), "the archive has 'x' twice"));
}

namespace {

// The archive as a writer of zip64 leaves it: wide numbers of the entry in its extra field where
// `entry`, and of the directory always, as some write them, the narrow ones also where `narrow`.
std::string wide_archive(const std::string& good, bool wide_entry, bool narrow) {
  const auto word = [](u64 v, size_t n) {
    return std::string(reinterpret_cast<const char*>(&v), n);
  };
  const size_t at = good.size() - kEntry, end = good.size() - kEnd;
  const u64 bytes = at - 30 - 5;
  std::string entry = good.substr(at, end - at);
  if (wide_entry) {
    for (const size_t field : {20, 24, 42}) entry = patched<u32>(entry, field, 0xffffffff);
    entry = patched<u16>(entry, 30, 6 + 28);  // an extra field of another kind before it
    entry += std::string("ux\2\0ab", 6) + word(1, 2) + word(24, 2) + word(bytes, 8) +
             word(bytes, 8) + word(0, 8);
  }
  const std::string record = std::string("PK\6\6", 4) + word(44, 8) + word(45, 2) + word(45, 2) +
                             word(0, 8) + word(1, 8) + word(1, 8) + word(entry.size(), 8) +
                             word(at, 8),
                    locator = std::string("PK\6\7", 4) + word(0, 4) + word(at + entry.size(), 8) +
                              word(1, 4),
                    ones(12, '\xff');
  const std::string last =
      std::string("PK\5\6\0\0\0\0", 8) +
      (narrow ? word(1, 2) + word(1, 2) + word(entry.size(), 4) + word(at, 4) : ones) + word(0, 2);
  return good.substr(0, at) + entry + record + locator + last;
}

}  // namespace

TEST_CASE("npz: zip64, which holds 4 GiB and 65535 members and more") {
  const std::string good = small_archive();
  std::string want;
  REQUIRE(refusal(good, {}, &want) == "");
  for (const bool wide_entry : {false, true})
    for (const bool narrow : {false, true}) {
      const std::string wide = wide_archive(good, wide_entry, narrow);
      std::string got;
      CHECK(refusal(wide, {}, &got) == "");
      CHECK(got == want);
      for (size_t n = 0; n < wide.size(); ++n) REQUIRE(refusal(wide.substr(0, n)) != "");
      for (size_t bit = 0; bit < 8 * wide.size(); ++bit) {
        std::string flipped = wide, content;
        flipped[bit / 8] ^= char(1 << bit % 8);
        if (refusal(flipped, {}, &content) == "") REQUIRE(content.size() == want.size());
      }
    }
  const std::string wide = wide_archive(good, true, false);
  const size_t end = wide.size() - kEnd, locator = end - 20, record = locator - 56,
               entry = good.size() - kEntry, extra = entry + 46 + 5 + 6;
  const std::pair<std::string, std::string> cases[] = {
      {patched<u32>(wide, locator, 0), "its record is not there"},
      {patched<u64>(wide, locator + 8, record - 1), "its record is not there"},
      {patched<u64>(wide, record + 4, 45), "its record is not there"},
      {patched<u64>(wide, record + 24, 2), "in parts"},
      {patched<u32>(wide, locator + 16, 2), "in parts"},
      {patched<u64>(wide, record + 40, ~u64{0}), "does not reach byte"},
      {patched<u64>(wide, record + 48, ~u64{0}), "does not reach byte"},
      {patched<u64>(patched<u64>(wide, record + 24, ~u64{0}), record + 32, ~u64{0}),
       "passes the limits"},
      {patched<u16>(wide, extra, 2), "is zip64 and does not say how large it is"},
      {patched<u16>(wide, extra + 2, 16), "is zip64 and does not say how large it is"},
      {patched<u64>(wide, extra + 4, ~u64{0}), "is stored, yet has"},
      {patched<u64>(wide, extra + 12, ~u64{0}), "reaches into the directory"},
      {patched<u64>(wide, extra + 20, ~u64{0}), "reaches into the directory"},
      {patched<u32>(wide_archive(good, true, true), end + 12, 7), "differ"},
  };
  for (const auto& [file, message] : cases) {
    CAPTURE(message);
    CHECK(mentions(refusal(file), message));
  }
}

TEST_CASE("npz: an archive of torch.save is told by its member, and what to do") {
  std::string file = small_archive();
  // The array's name becomes that of the pickle, in both places.
  for (size_t at; (at = file.find("x.npy")) != file.npos;) file.replace(at, 5, "f/data.pkl");
  for (const size_t header : {size_t{26}, file.size() - kEnd - 56 + 28})
    file = patched<u16>(file, header, 10);
  file = patched<u32>(patched<u32>(file, file.size() - 10, 56), file.size() - 6,
                      u32(file.size() - kEnd - 56));
  for (const std::string& f : {file, patched<u32>(file, file.size() - kEnd - 56 + 16, 0)}) {
    const std::string why = refusal(f);
    CHECK(mentions(why, "a PyTorch file (a zip archive with a pickle), not an npz archive"));
    CHECK(mentions(why, "Try tools/convert_pt.py"));
  }
}

TEST_CASE("npz: a deflated member may become what a gzip file may") {
  if (!WARPTAPE_HAS_ZLIB) SKIP_TEST("this build has no zlib");
  const std::string good = numpy_archive("deflated");
  CHECK(refusal(good, {.max_inflated = 1}) == "");  // 32 times their size is more
  const std::string text =
      refusal(patched<u32>(good, good.find("PK\1\2") + 24, 20'000), {.max_inflated = 10'000});
  CHECK(mentions(text, "claims 20000 inflated, the limit is 10000 (ParseLimits::max_inflated)"));
}

TEST_CASE("npz: a bomb is refused before anything is allocated for it") {
  if (!WARPTAPE_HAS_ZLIB) SKIP_TEST("this build has no zlib");
  // The deflated archive's first member claims 1000 bytes, then too few.
  const std::string good = numpy_archive("deflated");
  const size_t entry = good.find("PK\1\2");
  REQUIRE(entry != good.npos);
  u32 size = 0;
  std::memcpy(&size, good.data() + entry + 24, 4);
  CHECK(mentions(refusal(patched<u32>(good, entry + 24, 1000)), "needs 12 bytes, the file has"));
  CHECK(mentions(refusal(patched<u32>(good, entry + 24, size - 1)), "the file has 11"));
}
