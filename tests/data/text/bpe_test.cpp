// Tokenizers: against the plain definition, over any bytes, and their files.
#include "warptape/data/bpe.h"

#include <map>
#include <random>

#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using namespace wt;
using namespace wt::data;
using Ids = std::vector<i64>;

namespace {

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    out.emplace_back(text.substr(0, BpeTokenizer::first_piece(text)));
    text.remove_prefix(out.back().size());
  }
  return out;
}

Ids merged(const Ids& ids, i64 left, i64 right, i64 id) {
  Ids out;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool pair = i + 1 < ids.size() && ids[i] == left && ids[i + 1] == right;
    out.push_back(pair ? id : ids[i]);
    i += pair;
  }
  return out;
}

// As the algorithm is told: count everything, merge everywhere, again; equal pieces at once.
std::vector<BpeTokenizer::Merge> plain_training(std::string_view text, i64 merges, i64 min_count) {
  std::map<std::string, i64> times;
  for (const std::string& p : pieces(text)) ++times[p];
  std::vector<std::pair<Ids, i64>> words;
  for (const auto& [piece, n] : times) words.emplace_back(ByteTokenizer().encode(piece), n);
  std::vector<BpeTokenizer::Merge> out;
  while (i64(out.size()) < merges) {
    std::map<std::pair<i64, i64>, i64> counts;
    for (const auto& [w, n] : words)
      for (size_t i = 0; i + 1 < w.size(); ++i) counts[{w[i], w[i + 1]}] += n;
    std::pair<i64, i64> best;
    i64 most = 0;
    for (const auto& [pair, n] : counts)
      if (n > most) most = n, best = pair;
    if (most < min_count) break;
    out.push_back({best.first, best.second, 256 + i64(out.size())});
    for (auto& [w, n] : words) w = merged(w, best.first, best.second, out.back().id);
  }
  return out;
}

Ids plain_encoding(const BpeTokenizer& t, std::string_view text) {
  Ids out;
  for (const std::string& p : pieces(text)) {
    Ids ids = ByteTokenizer().encode(p);
    for (const auto& m : t.merges()) ids = merged(ids, m.left, m.right, m.id);
    out.insert(out.end(), ids.begin(), ids.end());
  }
  return out;
}

std::string random_text(std::mt19937_64& random, size_t n, std::string_view letters) {
  std::string s;
  for (size_t i = 0; i < n; ++i)
    s += letters.empty() ? char(random()) : letters[random() % letters.size()];
  return s;
}

// GPT-2's pair for merges "a b", "ab c" (with spaces written as they are there).
void write_gpt2(const TempDir& dir, const std::string& merges) {
  std::string vocab = "{";
  i64 id = 0;
  u32 next = 256;
  for (u32 b = 0; b < 256; ++b) {
    const bool visible = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const u32 c = visible ? b : next++;
    const std::string s =
        c < 128 ? std::string(1, char(c)) : std::string{char(0xC0 | c >> 6), char(0x80 | (c & 63))};
    vocab += (b ? ", \"" : "\"") + std::string(s == "\"" || s == "\\" ? "\\" : "") + s +
             "\": " + std::to_string(id++);
  }
  spit(dir / "vocab.json",
       vocab + ", \"\u0120a\": 256, \"\u0120ab\": 257, \"<|endoftext|>\": 258}");
  spit(dir / "merges.txt", merges);
}

}  // namespace

TEST_CASE("bpe: pieces are GPT-2's for ASCII") {
  using P = std::vector<std::string>;
  CHECK(pieces("Hello world") == P{"Hello", " world"});
  CHECK(pieces("it's  we'll 'tis") == P{"it", "'s", " ", " we", "'ll", " '", "tis"});
  CHECK(pieces("a12 34b, c!\n\nd \n") ==
        P{"a", "12", " 34", "b", ",", " c", "!", "\n", "\n", "d", " \n"});
  CHECK(pieces("x \t y") == P{"x", " \t", " y"});
  CHECK(pieces("don't('x')") == P{"don", "'t", "('", "x", "')"});
  CHECK(pieces("stra\xc3\x9f"
               "e 1") == P{"stra\xc3\x9f"
                           "e",
                           " 1"});
  CHECK(pieces("").empty());
}

TEST_CASE("bpe: training and encoding equal the plain definition") {
  std::mt19937_64 random(5);
  for (int round = 0; round < (wt_test::whole_walk() ? 24 : 12); ++round) {
    const std::string letters[] = {"ab", "aab ", "abcdefg \n'st1", ""};
    const std::string text = random_text(random, 1 + random() % 400, letters[round % 4]);
    const i64 min_count = 1 + round % 3;
    const BpeTokenizer t =
        BpeTokenizer::train(text, {.vocab_size = 256 + 40, .min_count = min_count});
    CAPTURE(round, text);
    REQUIRE(t.merges() == plain_training(text, 40, min_count));
    const std::string other = random_text(random, 300, letters[random() % 4]);
    for (const std::string& s : {text, other}) {
      REQUIRE(t.encode(s) == plain_encoding(t, s));
      REQUIRE(t.decode(t.encode(s)) == s);
    }
  }
  // Neighbours that overlap: the left ones merge.
  CHECK(BpeTokenizer::train("aaaaa aaa", {.vocab_size = 258}).merges() ==
        plain_training("aaaaa aaa", 2, 2));
}

TEST_CASE("bpe: equally frequent pairs merge in the order of their ids") {
  const BpeTokenizer t = BpeTokenizer::train("zy xw zy xw", {.vocab_size = 258});
  CHECK(t.merges()[0] == BpeTokenizer::Merge{' ', 'x', 256});
  CHECK(t.vocab_size() == 258);
  CHECK(BpeTokenizer::train("abc", {.vocab_size = 500}).vocab_size() ==
        256);  // nothing is there twice
  CHECK(BpeTokenizer::train("", {.vocab_size = 500}).vocab_size() == 256);
}

TEST_CASE("bpe: special tokens only where they are asked for") {
  const BpeTokenizer t = BpeTokenizer::train(
      "low lower lowest", {.vocab_size = 262, .specials = {"<|end|>", "<|end|>!", "\u00e9"}});
  REQUIRE(t.vocab_size() == 262);
  CHECK(t.special_id("<|end|>") == 259);
  CHECK(t.token(260) == "<|end|>!");
  const std::string text = "low<|end|>!\u00e9<|end|>";
  const Ids with = t.encode_with_specials(text), without = t.encode(text);
  CHECK(Ids(with.end() - 3, with.end()) == Ids{260, 261, 259});
  for (const i64 id : without) CHECK(id < 259);
  CHECK(t.decode(with) == text);
  CHECK(t.decode(without) == text);
  CHECK(mentions(message_of([&] { (void)t.special_id("<|ende|>"); }), "did you mean '<|end|>'?"));
  const i64 bad[] = {3, 262};
  CHECK(mentions(message_of([&] { (void)t.decode(bad); }), "id 262 at 1 is outside [0, 262)"));
  CHECK_THROWS_AS(t.token(-1), IndexError);
  const i64 byte[] = {256};
  CHECK_THROWS_AS(ByteTokenizer().decode(byte), IndexError);
  CHECK(ByteTokenizer().decode(ByteTokenizer().encode("a\xff")) == "a\xff");
  for (const std::string s : {"", "\xff", "a"})
    CHECK_THROWS_AS(BpeTokenizer::train("", {.specials = {"a", s}}), UsageError);
  CHECK_THROWS_AS(BpeTokenizer::train("", {.vocab_size = 255}), UsageError);
  CHECK_THROWS_AS(BpeTokenizer::train("", {.min_count = 0}), UsageError);
}

TEST_CASE("bpe: a piece of 300,000 letters takes no square of time") {
  const BpeTokenizer t = BpeTokenizer::train(std::string(300'000, 'a'), {.vocab_size = 270});
  CHECK(t.token(256) == "aa");
  const std::string text(300'001, 'a');
  CHECK(t.decode(t.encode(text)) == text);
}

TEST_CASE("bpe: Tiny Shakespeare") {
  std::string path = test_data("tinyshakespeare/input.txt");
  if (path.empty()) SKIP_TEST("no tinyshakespeare in WT_TEST_DATA or shared/data");
  const TempDir dir;
  if (!wt_test::whole_walk()) {
    spit(dir / "part", slurp(path).substr(0, 150'000));
    path = dir / "part";
  }
  const BpeTokenizer t = BpeTokenizer::train_files({path}, {.vocab_size = 1256});
  CHECK(t.vocab_size() == 1256);
  const std::string text = slurp(path);
  const Ids ids = t.encode(text);
  CHECK(ids.size() < text.size() / 2);
  CHECK(t.decode(ids) == text);
  // The first merges, counted the plain way.
  const std::vector<BpeTokenizer::Merge> first(t.merges().begin(), t.merges().begin() + 12);
  CHECK(first == plain_training(text, 12, 2));
  t.save(dir / "t.bpe");
  const BpeTokenizer again = BpeTokenizer::load(dir / "t.bpe");
  CHECK(again.merges() == t.merges());
  CHECK(again.encode(text) == ids);
}

TEST_CASE("bpe: a file gives the same tokenizer, and says what is wrong with it") {
  const TempDir dir;
  const BpeTokenizer t =
      BpeTokenizer::train("low lower lowest", {.vocab_size = 260, .specials = {"<\"\n>"}});
  t.save(dir / "t");
  const std::string good = slurp(dir / "t");
  const BpeTokenizer u = BpeTokenizer::load(dir / "t");
  CHECK(u.merges() == t.merges());
  CHECK(u.specials() == t.specials());
  CHECK(u.special_id("<\"\n>") == 259);
  CHECK_THROWS_AS(t.save(dir / "no/such"), CheckpointError);
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    const size_t at = bad.find(from);
    REQUIRE(at != bad.npos);
    bad.replace(at, from.size(), to);
    spit(dir / "bad", bad);
    return message_of([&] { (void)BpeTokenizer::load(dir / "bad"); });
  };
  CHECK(mentions(refusal("bpe 1", "bpe 2"), "at byte 0: line 1: not a tokenizer of this version"));
  CHECK(mentions(refusal("bytes 0 1", "bytes 0"), "expected 'bytes' and 256 ids, got 256 words"));
  CHECK(mentions(refusal("bytes 0 1", "bytes 1 1"), "line 2: id 1 is there twice"));
  CHECK(
      mentions(refusal("108 111 256", "108 300 256"), "line 4: id 300 is used before it is there"));
  CHECK(mentions(refusal("256 119 257", "108 111 257"), "line 5: 108 and 111 are merged twice"));
  CHECK(mentions(refusal("108 111 256", "108 111 9999999"), "id 9999999 is too large"));
  CHECK(mentions(refusal("108 111 256", "108 111"), "expected 3 ids, got 2 words"));
  CHECK(mentions(refusal("259 \"", "260 \""), "id 259 is missing"));
  CHECK(mentions(refusal("end\n", "end\nx"), "text after 'end'"));
  CHECK(mentions(refusal("merges 3", "merges 3000000"), "3000000 merges, there can be"));
  for (size_t n = 0; n + 1 < good.size(); ++n) {
    spit(dir / "cut", good.substr(0, n));
    REQUIRE_THROWS_AS(BpeTokenizer::load(dir / "cut"), DataError);
  }
  // Forty lines that would make a token of a tebibyte.
  std::string bomb = good.substr(0, good.find("merges")) + "merges 41\n97 97 256\n";
  for (int i = 256; i < 296; ++i) bomb += str(i, " ", i, " ", i + 1, "\n");
  spit(dir / "bomb", bomb + "specials 0\nend\n");
  CHECK(
      mentions(message_of([&] { (void)BpeTokenizer::load(dir / "bomb"); }), "tokens of more than"));
}

TEST_CASE("bpe: GPT-2's pair of files") {
  const TempDir dir;
  write_gpt2(dir, "#version: 0.2\n\u0120 a\n\u0120a b\n");
  const auto load = [&] { return BpeTokenizer::load_gpt2(dir / "merges.txt", dir / "vocab.json"); };
  const BpeTokenizer t = load();
  CHECK(t.vocab_size() == 259);
  CHECK(t.special_id("<|endoftext|>") == 258);
  CHECK(t.encode("x abc") == Ids{'x', 257, 'c'});
  std::string all;
  for (int b = 0; b < 256; ++b) all += char(b);
  CHECK(t.decode(t.encode(all)) == all);
  t.save(dir / "own");
  CHECK(BpeTokenizer::load(dir / "own").encode("x abc") == t.encode("x abc"));
  spit(dir / "merges.txt", "\u0120a b\n");
  CHECK(mentions(message_of(load), "line 1: a token is merged before it is made"));
  spit(dir / "merges.txt", "\u0120 a\n\u0120 b\n");
  CHECK(mentions(message_of(load), "line 2: token '\\xc4\\xa0b' is not in"));
  spit(dir / "merges.txt", "\u0120 a\n\u0120 a\n");
  CHECK(mentions(message_of(load), "line 2: '\\xc4\\xa0' and 'a' are merged twice"));
  spit(dir / "vocab.json", "{\"a\": 0, \"b\": 2}");
  CHECK(mentions(message_of(load), "token 'b' has 2"));
  spit(dir / "vocab.json", "{\"a\": 0}");
  CHECK(mentions(message_of(load), "token '\\xc4\\xa0' is not in"));
}

TEST_CASE("bpe: a vocabulary without all bytes is read until one of the others is met") {
  // As the tokenizers library trains it without initial_alphabet: the bytes of its text alone.
  const TempDir dir;
  spit(
      dir / "vocab.json",
      "{\"<|endoftext|>\": 0, \"a\": 1, \"b\": 2, \"\u0120\": 3, \"\u0120a\": 4, \"\u0120ab\": 5}");
  spit(dir / "merges.txt", "#version: 0.2\n\u0120 a\n\u0120a b\n");
  const BpeTokenizer t = BpeTokenizer::load_gpt2(dir / "merges.txt", dir / "vocab.json");
  t.save(dir / "own");
  CHECK(slurp(dir / "own").find(" - - - ") != std::string::npos);
  const BpeTokenizer own = BpeTokenizer::load(dir / "own");
  for (const BpeTokenizer& u : {t, own}) {
    CHECK(u.vocab_size() == 6);
    CHECK(u.encode("ba ab a") == Ids{2, 1, 5, 4});
    CHECK(u.decode(u.encode("ba ab a")) == "ba ab a");
    CHECK(u.encode_with_specials("ab<|endoftext|> a") == Ids{1, 2, 0, 4});
    CHECK(mentions(message_of([&] { (void)u.encode("ab cab"); }),
                   "[BpeTokenizer] byte 99 at 3 has no token: the vocabulary was trained on text "
                   "without it"));
    CHECK(mentions(message_of([&] { (void)u.encode_with_specials("ab<|endoftext|>\xff"); }),
                   "byte 255 at 15 has no token"));
    CHECK_THROWS_AS(u.encode("<|endoftext|>"), UsageError);
  }
  spit(dir / "vocab.json", "{\"<pad>\": 0}");
  CHECK(mentions(
      message_of([&] { (void)BpeTokenizer::load_gpt2(dir / "merges.txt", dir / "vocab.json"); }),
      "no token for any byte"));
}

// Lists of merges that were made of a vocabulary's ranks have every pair that gives a token.
TEST_CASE("bpe: a token that two pairs make") {
  const TempDir dir;
  write_gpt2(dir, "a b\n\u0120 ab\n\u0120 a\n\u0120a b\n");
  std::string vocab = slurp(dir / "vocab.json");
  vocab.replace(vocab.find("<|endoftext|>"), 13, "ab");
  spit(dir / "vocab.json", vocab);
  const BpeTokenizer t = BpeTokenizer::load_gpt2(dir / "merges.txt", dir / "vocab.json");
  t.save(dir / "own");
  const BpeTokenizer own = BpeTokenizer::load(dir / "own");
  for (const BpeTokenizer& each : {t, own}) {
    CHECK(each.vocab_size() == 259);
    CHECK(each.merges().size() == 4);
    CHECK(each.encode("x ab") == Ids{'x', 257});
    CHECK(each.encode("xab a") == Ids{'x', 258, 256});
    CHECK(each.decode(Ids{257, 258, 256}) == " abab a");
  }
  // Another token under its number is none.
  std::string wrong = slurp(dir / "own");
  const size_t at = wrong.find(" 257\n");
  wrong.replace(at, 5, " 256\n");
  spit(dir / "own", wrong);
  CHECK(mentions(message_of([&] { (void)BpeTokenizer::load(dir / "own"); }), "is there twice"));
}

TEST_CASE("bpe: whatever is done to a file, it is read or refused with its place") {
  const TempDir dir;
  BpeTokenizer::train("low lower lowest", {.vocab_size = 260, .specials = {"<end>"}})
      .save(dir / "t");
  const std::string good = slurp(dir / "t");
  const std::vector<std::string_view> words{"1",        " ",    "\n", "256", "\"",
                                            "merges 2", "\xff", "-",  "\\u"};
  FuzzPlan plan(1'000, 31);
  long long accepted = 0;
  for (long long i = 0; i < plan.cases; ++i) {
    // Most of the file is the line of the bytes: the edits go behind it.
    const size_t at = plan.random() % 4 ? good.find("merges") : 0;
    accepted +=
        wt_test::takes_bpe(good.substr(0, at) + mutated(good.substr(at), plan.random, words));
  }
  CHECK(accepted < plan.cases);
}
