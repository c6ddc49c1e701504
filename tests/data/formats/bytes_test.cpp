// Files by pieces, plain and gzip: what a small file may cost.
#include "warptape/data/bytes.h"

#include "warptape/config.h"
#include "warptape/data/cifar.h"
#include "warptape/data/csv.h"
#include "warptape/data/idx.h"
#include "warptape/data/image.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/gzip.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/xz.h"

using namespace wt;
using namespace wt::data;
using namespace std::string_literals;

namespace {
constexpr u64 kHuge = u64{1} << 39;  // more than any memory that runs this
}

TEST_CASE("content: plain and gzip files come in the pieces that are asked for") {
  const TempDir dir;
  spit(dir / "plain", "abcdefg");
  spit(dir / "packed", wt_test::gzip_stored("abc") + wt_test::gzip_stored("defg"));
  spit(dir / "xz", wt_test::kXzAbc + "\0\0\0\0"s + wt_test::kXzDefg);
  for (const char* name : {"plain", "packed", "xz"}) {
    if (name == "packed"s && !WARPTAPE_HAS_ZLIB) continue;
    if (name == "xz"s && !WARPTAPE_HAS_LZMA) continue;
    Content file(dir / name);
    std::vector<u8> bytes;
    file.append(bytes, 2);
    CHECK(std::string(bytes.begin(), bytes.end()) == "ab");
    char next[9] = {};
    CHECK(file.read(next, 3) == 3);
    CHECK(next == "cde"s);
    file.append(bytes, ~u64{0});
    CHECK(std::string(bytes.begin(), bytes.end()) == "abfg");
    CHECK(file.read(next, 9) == 0);
    CHECK(file.size().has_value() == (name == "plain"s));
    CHECK(content_size(dir / name) == 7);
    CHECK(read_first_bytes(dir / name, 4).size() == 4);
    CHECK(read_bytes(dir / name).size() == 7);
  }
}

TEST_CASE("content: a gzip file may become 1 GiB, or 32 times its size where that is more") {
  const ParseLimits usual;
  CHECK(usual.max_bytes == machine_memory());
  CHECK(usual.most_inflated(8 << 20) == std::min(u64{1} << 30, usual.max_bytes));
  const ParseLimits some{.max_bytes = u64{1} << 40};
  CHECK(some.most_inflated(u64{1} << 30) == u64{1} << 35);
  CHECK(some.most_inflated(~u64{0}) == some.max_bytes);
  if (!WARPTAPE_HAS_ZLIB) SKIP_TEST("this build has no zlib");
  const TempDir dir;
  spit(dir / "f", wt_test::gzip_zeros(8192));  // two million zeros in thirteen thousand bytes
  CHECK(read_bytes(dir / "f").size() == 1 + 258 * 8192);
  const ParseLimits small{.max_inflated = u64{1} << 20};
  const std::string text = message_of([&] { (void)read_bytes(dir / "f", small); });
  CHECK(mentions(text, dir / "f" + ": at byte "));
  CHECK(mentions(text, "inflates to more than 1048576 (ParseLimits::max_inflated, max_bytes)"));
  CHECK(mentions(message_of([&] { (void)read_bytes(dir / "f", {.max_bytes = 100'000}); }),
                 "inflates to more than 100000"));
  CHECK(mentions(message_of([&] { (void)read_csv(dir / "f", {}, small); }), "a NUL byte"));
}

TEST_CASE("content: xz within the limits of size and memory, damage with its place") {
  const TempDir dir;
  spit(dir / "f", wt_test::kXzAbc);
  if (!WARPTAPE_HAS_LZMA) {
    CHECK(mentions(message_of([&] { (void)read_bytes(dir / "f"); }), "install liblzma-dev"));
    SKIP_TEST("this build has no liblzma");
  }
  const auto refusal = [&](const std::string& content, const ParseLimits& limits = {}) {
    spit(dir / "f", content);
    return message_of([&] { (void)read_bytes(dir / "f", limits); });
  };
  spit(dir / "f", wt_test::kXzZeros);
  CHECK(read_bytes(dir / "f").size() == 2'000'000);
  CHECK(mentions(
      refusal(wt_test::kXzZeros, {.max_inflated = u64{1} << 20}),
      str("an xz file of ", wt_test::kXzZeros.size(), " bytes inflates to more than 1048576")));
  CHECK(mentions(refusal(wt_test::kXzWide), "bytes to be unpacked, the limit is 134217728"));
  CHECK(mentions(refusal(wt_test::kXzAbc + "xxxxxxxxxxxx"), "damaged xz data"));
  for (size_t n = 6; n < wt_test::kXzAbc.size(); ++n)
    CHECK(mentions(refusal(wt_test::kXzAbc.substr(0, n)), "the xz data ends early"));
  // Every bit is under a checksum, those of the magic make it another file.
  const size_t stride = wt_test::whole_walk() ? 1 : 7;
  for (size_t bit = 6 * 8; bit < wt_test::kXzAbc.size() * 8; bit += stride) {
    std::string bad = wt_test::kXzAbc;
    bad[bit / 8] ^= char(1 << bit % 8);
    CHECK(mentions(refusal(bad), dir / "f" + ": at byte "));
  }
}

TEST_CASE("content: whatever is done to an xz file, it is read or refused with its place") {
  if (!WARPTAPE_HAS_LZMA) SKIP_TEST("this build has no liblzma");
  FuzzPlan plan(wt_test::whole_walk() ? 3'000 : 1'000, 41);
  const std::string golden = wt_test::kXzAbc + wt_test::kXzDefg;
  const long long accepted =
      taken_of(plan, {golden}, {"\xff", "YZ", "\x21\x01"}, wt_test::takes_lines);
  CHECK(accepted < plan.cases);
}

TEST_CASE("idx: a gzip file's header may not ask for more than the file can become") {
  if (!WARPTAPE_HAS_ZLIB) SKIP_TEST("this build has no zlib");
  const TempDir dir;
  spit(dir / "f", wt_test::gzip_stored("\0\0\x08\x02\x7f\xff\xff\xff\0\0\x7f\xff"
                                       "abc"s));
  CHECK(mentions(message_of([&] { (void)read_idx(dir / "f"); }),
                 "shape [2147483647, 32767] needs 70366596661249 bytes, a gzip file of 38 bytes"));
  spit(dir / "f", wt_test::gzip_stored("\0\0\x08\x01\0\0\0\3"
                                       "ab"s));
  CHECK(mentions(message_of([&] { (void)read_idx(dir / "f"); }), "the file has 2 (truncated"));
  spit(dir / "f", wt_test::gzip_stored("\0\0\x08\x01\0\0\0\3"
                                       "abcd"s));
  CHECK(mentions(message_of([&] { (void)read_idx(dir / "f"); }), "needs 3 bytes, more follow"));
}

TEST_CASE("readers: a file of holes is refused by its first bytes, not loaded for them") {
  const TempDir dir;
  const auto refusal = [&](const std::string& head, auto&& read) {
    spit_sparse(dir / "f", head, kHuge);
    return message_of([&] { read(dir / "f", ParseLimits{.max_bytes = ~u64{0}}); });
  };
  const auto image = [](const std::string& path, const ParseLimits& l) {
    (void)read_image(path, l);
  };
  CHECK(mentions(refusal("", image), "at byte 0: neither PNG nor JPEG nor WebP nor PPM nor PGM"));
  CHECK(mentions(refusal("P5 1 1 255\nx", image), "the limit is 1073741824"));
  CHECK(mentions(refusal("\x89PNG\r\n\x1a\n", image), "the limit is 1073741824"));
  const auto idx = [](const std::string& path, const ParseLimits& l) { (void)read_idx(path, l); };
  CHECK(mentions(refusal("", idx), "IDX element type 0"));
  CHECK(mentions(refusal("\0\0\x08\x01\0\0\0\1"s, idx), "shape [1] needs 1 bytes, the file has"));
  const auto cifar = [](const std::string& path, const ParseLimits& l) {
    (void)read_cifar10(path, l);
  };
  CHECK(mentions(refusal("", cifar), "CIFAR-10 records have 3073 bytes, the file has"));
  const auto csv = [](const std::string& path, const ParseLimits& l) {
    (void)read_csv(path, {}, l);
  };
  CHECK(mentions(refusal("a,b\n1,2\n", csv), "at byte 8: line 3: a NUL byte"));
}
