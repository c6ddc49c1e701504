// Decoding: beams beside all sentences there are, kept keys and values beside the whole computed
// again.
#include "warptape/nn/beam_search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "warptape/autograd/compare.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/nn/seq2seq_decoder.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt::models;

namespace {

constexpr i64 kPad = 0, kBegin = 1, kEnd = 2, kTokens = 5;  // 3 and 4 are words
using Sentence = std::vector<i64>;

SearchOptions options(i64 beam, i64 max_length = 4) {
  return {.begin = kBegin,
          .end = kEnd,
          .beam = beam,
          .max_length = max_length,
          .never = {kPad, kBegin}};
}

// Logits of what follows any beginning of a sentence, hashed from it: a model without structure.
Tensor hashed_logits(const Sentence& so_far) {
  std::vector<double> logits;
  u64 h = 1469598103934665603u;
  for (const i64 t : so_far) h = (h ^ u64(t + 1)) * 1099511628211u;
  for (i64 t = 0; t < kTokens; ++t) {
    u64 x = (h ^ u64(t)) * 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    logits.push_back(double(x * 0xBF58476D1CE4E5B9u >> 40) / double(1 << 22));  // [0, 4)
  }
  return tensor(logits, {.dtype = DType::f64});
}

// As a model that is asked row by row; `first` tells the sentences apart.
struct Rows {
  std::vector<Sentence> all;
  explicit Rows(i64 count, i64 first = 0) {
    for (i64 i = 0; i < count; ++i) all.push_back({100 + first + i});
  }
  Tensor operator()(std::span<const i64> tokens, std::span<const i64> rows) {
    std::vector<Sentence> next;
    std::vector<Tensor> logits;
    for (size_t r = 0; r < rows.size(); ++r) {
      next.push_back(all.at(size_t(rows[r])));
      next.back().push_back(tokens[r]);
      logits.push_back(hashed_logits(next.back()));
    }
    all = std::move(next);
    return stack(logits);
  }
};

// Every sentence of up to max_length tokens with its log-probability, by `logits` of a beginning.
template <class F>
void enumerate(const F& logits, const SearchOptions& o, Sentence so_far, double sum,
               std::vector<Hypothesis>& all) {
  Tensor l = logits(so_far).to(DType::f32).clone();
  for (const i64 t : o.never) l[t].fill_(-INFINITY);
  const std::vector<float> p = log_softmax(l, 0).to_vector<float>();
  const auto penalty = [&](size_t n) { return std::pow((5 + double(n)) / 6, o.length_penalty); };
  for (i64 t = 0; t < i64(p.size()); ++t) {
    if (std::isinf(p[size_t(t)])) continue;
    const double now = sum + p[size_t(t)];
    const size_t n = so_far.size() + 1;
    if (t == o.end) {
      all.push_back({so_far, now, now / penalty(n), true});
      continue;
    }
    Sentence longer = so_far;
    longer.push_back(t);
    if (i64(n) == o.max_length)
      all.push_back({longer, now, now / penalty(n), false});
    else
      enumerate(logits, o, longer, now, all);
  }
}

template <class F>
std::vector<Hypothesis> all_sentences(const F& logits, const SearchOptions& o) {
  std::vector<Hypothesis> all;
  enumerate(logits, o, {}, 0, all);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  return all;
}

Seq2Seq tiny() {
  manual_seed(5);
  Seq2Seq net({.source_vocabulary = 9,
               .target_vocabulary = kTokens,
               .channels = 16,
               .heads = 4,
               .encoder_layers = 2,
               .decoder_layers = 2,
               .feed_forward = 20,
               .dropout = 0.3,
               .longest = 8,
               .padding = kPad});
  for (Tensor p : net.parameters()) {  // so that sentences differ
    const NoGrad no_grad;
    p.mul_(2.0);
  }
  return net;
}
Tensor ids(const std::vector<i64>& all, const Shape& shape) { return reshape(tensor(all), shape); }
// With padding behind the first and the last.
Tensor sources() { return ids({1, 5, 7, 2, 0, 0, 1, 3, 8, 4, 6, 2, 1, 8, 8, 5, 2, 0}, {3, 6}); }

// Logits behind a beginning, computed as a whole.
Tensor whole(Seq2Seq& net, const Tensor& source, Sentence target) {
  const NoGrad no_grad;
  const nn::EvalScope eval(net);
  target.insert(target.begin(), kBegin);
  const i64 n = i64(target.size());
  return net(source, ids(target, {1, n}))[0][n - 1];
}

}  // namespace

TEST_CASE("a beam that is wide enough finds all sentences there are, in their order") {
  for (const double alpha : {0.0, 0.6, 2.0}) {
    SearchOptions o = options(64);
    o.length_penalty = alpha;
    const auto found = beam_search(2, Rows(2), o);
    for (i64 s = 0; s < 2; ++s) {
      const auto all = all_sentences(
          [&](Sentence t) {
            t.insert(t.begin(), {100 + s, kBegin});
            return hashed_logits(t);
          },
          o);
      REQUIRE(all.size() == 31);  // 1 + 2 + 4 + 8 that end and 16 that are cut
      REQUIRE(found[size_t(s)].size() == all.size());
      for (size_t i = 0; i < all.size(); ++i) {
        CAPTURE(alpha, s, i);
        CHECK(found[size_t(s)][i].tokens == all[i].tokens);
        CHECK(found[size_t(s)][i].ended == all[i].ended);
        CHECK(std::abs(found[size_t(s)][i].score - all[i].score) < 1e-5);
        CHECK(std::abs(found[size_t(s)][i].log_probability - all[i].log_probability) < 1e-5);
      }
    }
  }
}

TEST_CASE("a beam of one is greedy, and a wider one is never less likely") {
  constexpr i64 kCount = 40;
  SearchOptions o = options(1, 7);
  o.length_penalty = 0;
  const auto greedy = greedy_search(kCount, Rows(kCount), o);
  const auto one = beam_search(kCount, Rows(kCount), o);
  const auto eight = beam_search(kCount, Rows(kCount), options(8, 7));
  size_t better = 0, ended = 0;
  for (size_t i = 0; i < greedy.size(); ++i) {
    REQUIRE(one[i].size() == 1);
    CHECK(one[i][0].tokens == greedy[i]);
    CHECK(eight[i].size() == 8);
    ended += one[i][0].ended;
    better += eight[i][0].tokens != greedy[i];
  }
  CHECK(ended > 5);
  CHECK(ended < kCount);
  CHECK(better > 5);
}

TEST_CASE("sentences of a batch are decoded as each alone") {
  const auto together = beam_search(6, Rows(6), options(3, 6));
  for (i64 i = 0; i < 6; ++i) {
    const auto alone = beam_search(1, Rows(1, i), options(3, 6));
    REQUIRE(alone[0].size() == together[size_t(i)].size());
    for (size_t k = 0; k < alone[0].size(); ++k) {
      CHECK(alone[0][k].tokens == together[size_t(i)][k].tokens);
      CHECK(alone[0][k].score == together[size_t(i)][k].score);
    }
  }
}

TEST_CASE("the penalty of length divides by Wu's root or by a power") {
  // Words and ends as likely as each other: a longer sentence is less likely, and per token alike.
  const NextLogits even = [](std::span<const i64> tokens, std::span<const i64>) {
    return zeros({i64(tokens.size()), kTokens});
  };
  SearchOptions o = options(64, 2);
  const double step = std::log(1.0 / 3);  // of 3, 4 and the end
  o.length_penalty = 1;
  auto found = beam_search(1, even, o);
  CHECK(found[0].size() == 7);
  for (const Hypothesis& h : found[0]) {
    const double n = double(h.tokens.size()) + (h.ended ? 1 : 0);
    CHECK(std::abs(h.score - n * step / ((5 + n) / 6)) < 1e-6);
  }
  o.penalty = LengthPenalty::power;
  found = beam_search(1, even, o);
  for (const Hypothesis& h : found[0]) CHECK(std::abs(h.score - step) < 1e-6);
  CHECK(beam_search(0, even, o).empty());
  CHECK(greedy_search(0, even, o).empty());
}

TEST_CASE("searches refuse options, logits and numbers that make no sense") {
  const NextLogits narrow = [](std::span<const i64> t, std::span<const i64>) {
    return zeros({i64(t.size()), 2});
  };
  const NextLogits nan = [](std::span<const i64> t, std::span<const i64>) {
    return full({i64(t.size()), kTokens}, NAN);
  };
  const auto text = [](const NextLogits& next, const SearchOptions& o) {
    const std::string greedy = message_of([&] { greedy_search(1, next, o); });
    const std::string beam = message_of([&] { beam_search(1, next, o); });
    CHECK(greedy.empty() == beam.empty());
    return beam;
  };
  SearchOptions o = options(2);
  CHECK(mentions(text(narrow, o), "logits must be [1, more than 2], got [1, 2]"));
  CHECK(mentions(text(nan, o), "logits of sentence 0 are NaN at token 0"));
  CHECK(mentions(text(nan, {}), ".begin -1 and .end -1 must be given"));
  CHECK(mentions(text(nan, options(0)), ".beam must be at least 1, got 0"));
  CHECK(mentions(text(nan, options(1, 0)), ".max_length must be at least 1, got 0"));
  o.never = {9};
  CHECK(mentions(text(nan, o), ".never has 9, logits are of [0, 5)"));
  o.length_penalty = NAN;
  CHECK(mentions(text(nan, o), ".length_penalty is nan"));
}

TEST_CASE("a decoder that keeps keys and values gives what the whole sentence gives") {
  const LeakGuard guard;
  Seq2Seq net = tiny();
  Seq2SeqDecoder decoder(net, sources());
  // Rows swap places, go on twice and leave; the third is not asked for at first.
  struct Step {
    std::vector<i64> tokens, rows;
  };
  const std::vector<Step> steps = {{{1, 1, 1}, {0, 1, 2}},
                                   {{3, 4, 4}, {1, 0, 0}},
                                   {{4, 3, 3}, {2, 0, 0}},
                                   {{3, 3}, {1, 2}},
                                   {{4, 3}, {0, 1}}};
  std::vector<std::pair<i64, Sentence>> rows = {{0, {}}, {1, {}}, {2, {}}};
  for (const Step& s : steps) {
    const Tensor logits = decoder.next(s.tokens, s.rows);
    std::vector<std::pair<i64, Sentence>> next;
    for (size_t r = 0; r < s.rows.size(); ++r) {
      next.push_back(rows[size_t(s.rows[r])]);
      if (decoder.length() > 1) next.back().second.push_back(s.tokens[r]);
      const Tensor source = sources().narrow(0, next.back().first, 1);
      CHECK(allclose(logits[i64(r)], whole(net, source, next.back().second),
                     {.rtol = 1e-4, .atol = 1e-5}));
    }
    rows = next;
  }
  CHECK(net.is_training());
}

TEST_CASE("a Transformer's best sentence is the best of all there are") {
  Seq2Seq net = tiny();
  const SearchOptions o = options(64);
  Seq2SeqDecoder decoder(net, sources());
  const auto found = beam_search(
      3, [&](auto tokens, auto rows) { return decoder.next(tokens, rows); }, o);
  for (i64 i = 0; i < 3; ++i) {
    const Tensor source = sources().narrow(0, i, 1);
    const auto all = all_sentences([&](const Sentence& t) { return whole(net, source, t); }, o);
    REQUIRE(found[size_t(i)].size() == all.size());
    CHECK(found[size_t(i)][0].tokens == all[0].tokens);
    for (size_t k = 0; k < all.size(); ++k)
      CHECK(std::abs(found[size_t(i)][k].score - all[k].score) < 1e-4);
  }
}

TEST_CASE("a decoder refuses tokens and rows that are not there, and is then as before") {
  Seq2Seq net = tiny();
  Seq2SeqDecoder decoder(net, sources());
  const std::vector<i64> rows = {0, 1, 2}, begin = {1, 1, 1};
  const Tensor first = decoder.next(begin, rows);
  const auto text = [&](std::vector<i64> tokens, std::vector<i64> of) {
    return message_of([&] { (void)decoder.next(tokens, of); });
  };
  CHECK(mentions(text({3, 3}, {0}), "2 tokens for 1 rows"));
  CHECK(mentions(text({}, {}), "0 tokens for 0 rows"));
  CHECK(mentions(text({3}, {3}), "row 3 is outside [0, 3)"));
  CHECK(mentions(text({kTokens}, {0}), "token 5 is outside [0, 5)"));
  CHECK(mentions(text({-1}, {0}), "token -1 is outside"));
  CHECK(decoder.length() == 1);
  for (int i = 0; i < 7; ++i) (void)decoder.next(begin, rows);
  CHECK(mentions(text({3}, {0}), "9 tokens in a row are more than the 8 places there are"));
}
