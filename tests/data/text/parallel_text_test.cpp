// Pairs of lines: files, vocabularies, padded batches, buckets.
#include "warptape/data/parallel_text.h"

#include <algorithm>
#include <numeric>

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
using Ids = std::vector<i64>;
using Lines_ = std::vector<std::string>;

TEST_CASE("parallel text: lines of two files, or what keeps them from being pairs") {
  const TempDir dir;
  spit(dir / "a.en", "one two\r\n\nthree");
  spit(dir / "a.de", "eins zwei\n\ndrei \xc3\xbc\n");
  const ParallelLines lines = read_parallel(dir / "a.en", dir / "a.de");
  CHECK(lines.source == Lines_{"one two", "", "three"});
  CHECK(lines.target == Lines_{"eins zwei", "", "drei \xc3\xbc"});
  const auto refusal = [&](const std::string& content, const ParseLimits& l = {}) {
    spit(dir / "b", content);
    return message_of([&] { (void)read_parallel(dir / "a.en", dir / "b", l); });
  };
  CHECK(mentions(refusal("a\nb\n"), "a.en has 3 lines, " + dir.path + "/b has 2: they are no"));
  CHECK(mentions(refusal("a\nb\xff\n"), dir / "b" + ": at byte 3: line 2: byte 255 is not UTF-8"));
  CHECK(mentions(refusal("a\nb\xc3"), "at byte 3: line 2: byte 195 is not UTF-8"));
  CHECK(mentions(refusal(std::string("a\0", 2)), "at byte 1: line 1: a NUL byte"));
  CHECK(mentions(refusal("1234567890\n", {.max_string = 9}), "10 bytes, the limit is 9"));
  CHECK(mentions(message_of([&] { (void)read_parallel(dir / "no", dir / "b"); }), dir / "no"));
}

TEST_CASE("parallel text: words by frequency") {
  const Lines_ lines{"b a  b\tc", "c b <eos> z", ""};
  const WordVocabulary v = WordVocabulary::of(lines);
  REQUIRE(v.size() == 8);
  CHECK(v.encode("b c a z y <eos>") == Ids{4, 5, 6, 7, 1, 1});
  CHECK(v.decode(Ids{2, 4, 1, 6, 3, 0, 0}) == "b <unk> a");
  CHECK(v.word(0) == "<pad>");
  CHECK(WordVocabulary::of(lines, {.min_count = 2}).size() == 6);
  CHECK(WordVocabulary::of(lines, {.max_size = 5}).encode("b c") == Ids{4, 1});
  CHECK(WordVocabulary::of({}).size() == 4);
  CHECK_THROWS_AS(v.word(8), IndexError);
  CHECK_THROWS_AS(v.decode(Ids{-1}), IndexError);
  CHECK_THROWS_AS(WordVocabulary::of(lines, {.max_size = 3}), UsageError);
  CHECK_THROWS_AS(WordVocabulary::of(lines, {.min_count = 0}), UsageError);
}

TEST_CASE("parallel text: batches are padded, with lengths and masks") {
  const ParallelLines lines{{"a b c", "a", ""}, {"x", "x y", "y"}};
  const LineCoder s = line_coder(WordVocabulary::of(lines.source));
  const LineCoder t = line_coder(
      BpeTokenizer::train("", {.vocab_size = 260, .specials = {"<eos>", "<bos>", "<pad>"}}));
  const ParallelText set(lines, s, t);
  REQUIRE(set.size() == 3);
  const i64 pick[] = {1, 0};
  const TextPairBatch b = set.batch(pick);
  CHECK(b.source.to_vector<i64>() == Ids{2, 4, 3, 0, 0, 2, 4, 5, 6, 3});
  CHECK(b.target.to_vector<i64>() == Ids{257, 'x', ' ', 'y', 256, 257, 'x', 256, 258, 258});
  CHECK(b.source_mask.dtype() == DType::boolean);
  CHECK(b.source_mask.to_vector<bool>() ==
        std::vector<bool>{true, true, true, false, false, true, true, true, true, true});
  CHECK(b.target_lengths.to_vector<i64>() == Ids{5, 3});
  CHECK(b.source_lengths.to_vector<i64>() == Ids{3, 5});
  CHECK(b.narrow(1, 1).source.to_vector<i64>() == Ids{2, 4, 5, 6, 3});
  CHECK(set.lengths() == Ids{5, 5, 3});
  const i64 empty_line[] = {2};
  CHECK(set.batch(empty_line).source.to_vector<i64>() == Ids{2, 3});
  CHECK(set.batch({}).source.shape() == Shape{0, 0});
  const ParallelText some(lines, s, s, {.max_length = 2});
  CHECK(some.size() == 2);
  CHECK(some.left_out() == 1);
  const i64 outside[] = {3};
  CHECK_THROWS_AS(set.batch(outside), IndexError);
  CHECK_THROWS_AS(ParallelText({{"a"}, {}}, s, s), UsageError);
  CHECK_THROWS_AS(ParallelText({}, s, s), DataError);
  CHECK_THROWS_AS(line_coder(BpeTokenizer::train("")), UsageError);
  i64 seen = 0;
  for (const TextPairBatch& made : Loader{set, {.batch = 2, .workers = 2}}) seen += made.size();
  CHECK(seen == 3);
}

TEST_CASE("parallel text: buckets have every sample once and waste little padding") {
  Ids lengths;
  for (i64 i = 0; i < 1003; ++i) lengths.push_back(1 + i * 7919 % 50);
  const auto padding = [&](const Ids& order, i64 batch) {
    i64 sum = 0;
    for (size_t b = 0; b < order.size(); b += size_t(batch)) {
      i64 longest = 0, n = 0;
      for (size_t i = b; i < std::min(order.size(), b + size_t(batch)); ++i, ++n)
        longest = std::max(longest, lengths[size_t(order[i])]);
      sum += longest * n;
    }
    return double(sum) / double(std::accumulate(lengths.begin(), lengths.end(), i64{0})) - 1;
  };
  Ids all(lengths.size());
  std::iota(all.begin(), all.end(), 0);
  for (const i64 pool : {1, 10, 1000}) {
    const Sampler s = bucket_sampler(lengths, 10, {.seed = 3, .pool = pool});
    const Ids order = s(0);
    CHECK(order == s(0));
    CHECK(order != s(1));
    CHECK(order != bucket_sampler(lengths, 10, {.seed = 4, .pool = pool})(0));
    Ids sorted = order;
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == all);
    CHECK((pool == 1 ? padding(order, 10) > 0.5 : padding(order, 10) < 0.15));
  }
  const Ids sorted = bucket_sampler(lengths, 10, {.shuffle = false})(0);
  CHECK(std::is_sorted(sorted.begin(), sorted.end(), [&](i64 a, i64 b) {
    return lengths[size_t(a)] != lengths[size_t(b)] ? lengths[size_t(a)] < lengths[size_t(b)]
                                                    : a < b;
  }));
  CHECK(bucket_sampler({5, 3}, 10)(0).size() == 2);
  CHECK_THROWS_AS(bucket_sampler({}, 1), UsageError);
  CHECK_THROWS_AS(bucket_sampler({1}, 0), UsageError);
}

TEST_CASE("parallel text: Multi30k") {
  const std::string root = test_data("multi30k");
  if (root.empty()) SKIP_TEST("no multi30k in WT_TEST_DATA or shared/data");
  const ParallelLines lines = read_parallel(root + "/train.en.gz", root + "/train.de.gz");
  REQUIRE(lines.source.size() == 29'000);
  CHECK(lines.source[0] == "Two young, White males are outside near many bushes.");
  CHECK(lines.target[0] == "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.");
  CHECK(read_parallel(root + "/val.en.gz", root + "/val.de.gz").source.size() == 1014);
  CHECK(read_parallel(root + "/test_2016_flickr.en.gz", root + "/test_2016_flickr.de.gz")
            .source.size() == 1000);
  CHECK(mentions(message_of([&] { read_parallel(root + "/val.en.gz", root + "/train.de.gz"); }),
                 "has 1014 lines"));
  const LineCoder en = line_coder(WordVocabulary::of(lines.source, {.min_count = 2}));
  const LineCoder de = line_coder(WordVocabulary::of(lines.target, {.min_count = 2}));
  const ParallelText set(lines, en, de);
  i64 tokens = 0, places = 0, pairs = 0;
  for (const TextPairBatch& b :
       Loader{set, {.batch = 64, .sampler = bucket_sampler(set.lengths(), 64)}}) {
    for (const i64 n : b.source_lengths.to_vector<i64>()) tokens += n;
    places += b.source.numel();
    pairs += b.size();
  }
  CHECK(pairs == 29'000);
  CHECK(tokens == 345'020 + 2 * 29'000);  // wc's words
  CHECK(double(places) / double(tokens) < 1.25);
}

TEST_CASE("parallel text: whatever is done to a file, it is read or refused with its place") {
  const std::string text = "a \xc3\xbc b\n\xf0\x9f\x98\x80\r\nlast";
  FuzzPlan plan(2'000, 43);
  const long long accepted =
      taken_of(plan, {text}, {"\n", "\xc3", "\x80", "\xed\xa0\x80"}, wt_test::takes_lines);
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases);
}
