// Files of tokens, and windows of them.
#include "warptape/data/tokens.h"

#include <set>

#include "warptape/config.h"
#include "warptape/core/factories.h"
#include "warptape/data/bpe.h"
#include "warptape/data/loader.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/gzip.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using namespace wt;
using namespace wt::data;
using namespace std::string_literals;
using Ids = std::vector<i64>;

namespace {
Ids ids_of(const Tensor& t) { return t.to_vector<i64>(); }
}  // namespace

TEST_CASE("tokens: what is written is read, byte for byte as others write it") {
  const TempDir dir;
  const Ids ids{1, 0, 258, 65535};
  write_tokens(dir / "raw", ids);
  CHECK(slurp(dir / "raw") == "\1\0\0\0\2\1\xff\xff"s);
  TokenFile f = read_tokens(dir / "raw");
  CHECK(f.format == TokenFormat::raw16);
  CHECK(f.tokens.dtype() == DType::i32);
  CHECK(ids_of(f.tokens) == ids);
  write_tokens(dir / "llm", ids, TokenFormat::llm_c);
  const std::string header = "\x88\xd8\x34\x01\1\0\0\0\4\0\0\0"s;
  CHECK(slurp(dir / "llm") == header + std::string(1012, '\0') + slurp(dir / "raw"));
  f = read_tokens(dir / "llm");
  CHECK(f.format == TokenFormat::llm_c);
  CHECK(ids_of(f.tokens) == ids);
  const Ids wide{3, 65536, (i64{1} << 31) - 1};
  write_tokens(dir / "wide", wide);
  CHECK(slurp(dir / "wide") == "\3\0\0\0\0\0\1\0\xff\xff\xff\x7f"s);
  CHECK(ids_of(read_tokens(dir / "wide", {.format = TokenFormat::raw32}).tokens) == wide);
  write_tokens(dir / "none", {});
  CHECK(read_tokens(dir / "none").tokens.shape() == Shape{0});
  Ids many(700'000);  // several pieces
  for (size_t i = 0; i < many.size(); ++i) many[i] = i64(i * 7919 % 65536);
  for (const TokenFormat format : {TokenFormat::raw16, TokenFormat::raw32, TokenFormat::llm_c}) {
    write_tokens(dir / "many", many, format);
    CHECK(ids_of(read_tokens(dir / "many", {.format = format}).tokens) == many);
  }
  if (WARPTAPE_HAS_ZLIB) {
    spit(dir / "packed", wt_test::gzip_stored(slurp(dir / "llm")));
    CHECK(ids_of(read_tokens(dir / "packed").tokens) == ids);
    spit(dir / "packed", wt_test::gzip_stored("abc"));
    CHECK(mentions(message_of([&] { (void)read_tokens(dir / "packed"); }),
                   "at byte 2: tokens have 2 bytes, the file has 3"));
  }
}

TEST_CASE("tokens: what a file or a format does not hold is refused with its place") {
  const TempDir dir;
  const auto refusal = [&](const std::string& content, const TokenFileOptions& o = {}) {
    spit(dir / "f", content);
    return message_of([&] { (void)read_tokens(dir / "f", o); });
  };
  CHECK(mentions(refusal("\1\0\2\0"s, {.vocab_size = 2}),
                 dir / "f" + ": at byte 2: token 2 at 1 is outside [0, 2)"));
  CHECK(mentions(refusal("\1\0\2"s), "at byte 2: tokens have 2 bytes, the file has 3 (truncated"));
  CHECK(mentions(refusal("\1\0\2\0\0"s, {.format = TokenFormat::raw32}), "tokens have 4 bytes"));
  CHECK(mentions(refusal("\0\0\0\x80"s, {.format = TokenFormat::raw32}),
                 "token 2147483648 at 0 is outside [0, 2147483648)"));
  write_tokens(dir / "llm", Ids{1, 2}, TokenFormat::llm_c);
  const std::string good = slurp(dir / "llm");
  const TokenFileOptions llm{.format = TokenFormat::llm_c, .vocab_size = 2};
  CHECK(mentions(refusal(good, llm), "at byte 1026: token 2 at 1 is outside [0, 2)"));
  CHECK(mentions(refusal(good + "\0\0"s, llm), "the header says 2 tokens, the file has 3"));
  CHECK(mentions(refusal(good.substr(0, 1026)),
                 "at byte 8: the header says 2 tokens, the file has 1 (truncated download?)"));
  CHECK(mentions(refusal(good + "\0"s), "tokens have 2 bytes, the file has 1029"));
  CHECK(mentions(refusal(good.substr(0, 1000)), "a header of 1024 bytes is cut short at 1000"));
  std::string bad = good;
  bad[0] = 0;
  CHECK(mentions(refusal(bad, llm), "llm.c's token files have 20240520"));
  bad = good;
  bad[4] = 2;
  CHECK(mentions(refusal(bad, llm), "at byte 4: version 2, only 1 is read"));
  bad = good;
  bad[11] = char(0x80);
  CHECK(mentions(refusal(bad), "at byte 8: -2147483646 tokens"));
  CHECK_THROWS_AS(read_tokens(dir / "llm", {.vocab_size = 0}), UsageError);
  CHECK_THROWS_AS(read_tokens(dir / "absent"), DataError);
  CHECK(mentions(message_of([&] { (void)read_tokens(dir / "llm", {}, {.max_bytes = 1000}); }),
                 "the file has 1028 bytes, the limit is 1000"));
  spit(dir / "f", std::string(100, '\0'));
  CHECK(mentions(message_of([&] { (void)read_tokens(dir / "f", {}, {.max_bytes = 150}); }),
                 "50 tokens take 200 bytes, the limit is 150"));
  spit(dir / "old", "old");
  CHECK(mentions(message_of([&] {
                   write_tokens(dir / "old", Ids{0, 65536}, TokenFormat::raw16);
                 }),
                 "token 65536 at 1 is outside [0, 65536)"));
  CHECK_THROWS_AS(write_tokens(dir / "old", Ids{-1}), IndexError);
  CHECK_THROWS_AS(write_tokens(dir / "old", Ids{i64{1} << 31}), IndexError);
  CHECK(slurp(dir / "old") == "old");
}

TEST_CASE("tokens: windows, one behind the other or drawn") {
  Ids ids(50);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i64(i) * 3;
  const TensorOptions host{.dtype = DType::i32, .device = Device::cpu()};
  const Tensor tokens = tensor(ids, host);
  const TokenWindows set(tokens, {.context = 7});
  REQUIRE(set.size() == 7);  // 0, 7, ... 42: the last target is token 49
  const i64 last[] = {6, 0};
  const Batch b = set.batch(last);
  CHECK(b.x.shape() == Shape{2, 7});
  CHECK(b.x.dtype() == DType::i64);
  for (i64 k = 0; k < 7; ++k) {
    CHECK(ids_of(b.x)[size_t(k)] == 3 * (42 + k));
    CHECK(ids_of(b.y)[size_t(k)] == 3 * (43 + k));
    CHECK(ids_of(b.y)[size_t(7 + k)] == 3 * (1 + k));
  }
  CHECK(TokenWindows(tokens, {.context = 49}).size() == 1);
  CHECK(TokenWindows(tokens, {.context = 48, .stride = 1}).size() == 2);
  CHECK(TokenWindows(tokens.to(DType::u8), {.context = 7}).batch(last).x.to_vector<i64>() ==
        ids_of(b.x));
  CHECK(mentions(message_of([&] { TokenWindows(tokens, {.context = 50}); }),
                 "50 tokens are too few for a context of 50"));
  CHECK_THROWS_AS(TokenWindows(tokens, {.context = 0}), UsageError);
  CHECK_THROWS_AS(TokenWindows(tokens, {.stride = 1, .samples = 1}), UsageError);
  CHECK_THROWS_AS(TokenWindows(tokens.to(DType::f32), {}), DtypeError);
  CHECK_THROWS_AS(TokenWindows(tokens.view({5, 10}), {}), ShapeError);
  const i64 outside[] = {7};
  CHECK_THROWS_AS(set.batch(outside), IndexError);

  const TokenWindows drawn(tokens, {.context = 10, .samples = 4000, .seed = 5});
  std::vector<int> count(40);
  for (i64 i = 0; i < drawn.size(); ++i) ++count[size_t(drawn.begin(i, 2))];
  for (const int n : count) CHECK((n > 50 && n < 150));  // 100 each, 10 the deviation
  CHECK(drawn.begin(3, 2) ==
        TokenWindows(tokens, {.context = 10, .samples = 9, .seed = 5}).begin(3, 2));
  int same = 0;
  for (i64 i = 0; i < 400; ++i) same += drawn.begin(i, 0) == drawn.begin(i, 1);
  CHECK(same < 40);
  // The loader gives the epoch.
  Loader loader{drawn, {.batch = 8, .workers = 2}};
  Batch first;
  REQUIRE(loader.next(first));
  CHECK(ids_of(first.x)[10] == 3 * drawn.begin(1, 0));
  loader.set_state({.epoch = 1});
  REQUIRE(loader.next(first));
  CHECK(ids_of(first.x)[10] == 3 * drawn.begin(1, 1));
}

TEST_CASE("tokens: whatever is done to a file, it is read or refused with its place") {
  const TempDir dir;
  write_tokens(dir / "llm", Ids{1, 2, 700}, TokenFormat::llm_c);
  const std::string good = slurp(dir / "llm");
  const std::vector<std::string_view> words{"\xff", "\x88\xd8\x34\x01", "\x80", "\x1f\x8b\x08"};
  FuzzPlan plan(2'000, 37);
  long long accepted = 0;
  for (long long i = 0; i < plan.cases; ++i) {
    const size_t tail = plan.random() % 2 ? 1024 : 0;
    accepted += wt_test::takes_tokens(good.substr(0, tail) +
                                      mutated(good.substr(tail), plan.random, words));
  }
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases);
  const auto read = [&](const std::string& content) {
    spit(dir / "f", content);
    return message_of([&] { (void)read_tokens(dir / "f", {.format = TokenFormat::llm_c}); });
  };
  for (size_t n = 0; n < good.size(); ++n) CHECK(mentions(read(good.substr(0, n)), "at byte "));
  for (size_t bit = 0; bit < 12 * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] ^= char(1 << bit % 8);
    CHECK(mentions(read(bad), "at byte "));
  }
}
