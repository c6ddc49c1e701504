#include "warptape/nn/beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/autograd/ops/sort.h"
#include "warptape/core/at_line.h"
#include "warptape/core/error.h"

namespace wt::models {
namespace {

void check(i64 count, const SearchOptions& o) {
  const auto refuse = [](const std::string& what) {
    throw UsageError(str("[beam_search] ", what, at_line()));
  };
  if (count < 0) refuse(str(count, " sentences"));
  if (o.begin < 0 || o.end < 0)
    refuse(str(".begin ", o.begin, " and .end ", o.end, " must be given: tokens from 0 on"));
  if (o.beam < 1) refuse(str(".beam must be at least 1, got ", o.beam));
  if (o.max_length < 1) refuse(str(".max_length must be at least 1, got ", o.max_length));
  if (!std::isfinite(o.length_penalty))
    refuse(str(".length_penalty is ", o.length_penalty, ", which is no number"));
}

Tensor checked_logits(const Tensor& logits, size_t rows, const SearchOptions& o) {
  if (logits.ndim() != 2 || logits.size(0) != i64(rows) || logits.size(1) <= o.end)
    throw ShapeError(str("[beam_search] logits must be [", rows, ", more than ", o.end, "], got ",
                         logits.shape(), at_line()));
  for (const i64 token : o.never)
    if (token < 0 || token >= logits.size(1))
      throw IndexError(str("[beam_search] .never has ", token, ", logits are of [0, ",
                           logits.size(1), ")", at_line()));
  return logits.to(DType::f32);
}

// Logits without those tokens, in memory of their own.
Tensor allowed(const Tensor& logits, const SearchOptions& o) {
  if (o.never.empty()) return logits;
  Tensor own = logits.clone();
  for (const i64 token : o.never) own.select(1, token).fill_(-INFINITY);
  return own;
}

double normalised(double sum, size_t length, const SearchOptions& o) {
  const double n = double(length);
  const double base = o.penalty == LengthPenalty::wu ? (5 + n) / 6 : n;
  return sum / std::pow(base, o.length_penalty);
}

struct Live {
  std::vector<i64> tokens;
  double sum = 0;
};
struct Candidate {
  double sum;
  size_t from;  // among the sentence's live ones
  i64 token;
};
struct Sentence {
  size_t number;
  std::vector<Live> live{Live{}};
  std::vector<Hypothesis> found{};
};

// The likeliest tokens of each row, best first.
struct Best {
  std::vector<double> values;
  std::vector<i64> tokens;
  size_t each;
};
Best best_of(const Tensor& logits, i64 k) {
  const auto [values, tokens] = topk(log_softmax(logits, 1), std::min(k, logits.size(1)), 1);
  return {values.to(Device::cpu()).to(DType::f64).to_vector<double>(),
          tokens.to(Device::cpu()).to_vector<i64>(), size_t(values.size(1))};
}

std::vector<Candidate> candidates(const Sentence& s, size_t first_row, const Best& best) {
  std::vector<Candidate> all;
  for (size_t l = 0; l < s.live.size(); ++l)
    for (size_t k = 0; k < best.each; ++k) {
      const size_t at = (first_row + l) * best.each + k;
      if (std::isnan(best.values[at]))
        throw NumericError(str("[beam_search] logits of sentence ", s.number, " are NaN at token ",
                               s.live[l].tokens.size(), at_line()));
      if (best.values[at] > -INFINITY)
        all.push_back({s.live[l].sum + best.values[at], l, best.tokens[at]});
    }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.sum > b.sum; });
  return all;
}

void finish(Sentence& s, Live&& l, bool ended, const SearchOptions& o) {
  const size_t length = l.tokens.size() + (ended ? 1 : 0);
  s.found.push_back({std::move(l.tokens), l.sum, normalised(l.sum, length, o), ended});
}

// Ends are taken out, the best others live on; `rows` are those they go on from.
void advance(Sentence& s, size_t first_row, const Best& best, i64 length, const SearchOptions& o,
             std::vector<i64>& rows) {
  std::vector<Live> next;
  size_t rank = 0;
  for (const Candidate& c : candidates(s, first_row, best)) {
    Live l{s.live[c.from].tokens, c.sum};
    if (c.token == o.end) {
      if (rank < size_t(o.beam)) finish(s, std::move(l), true, o);
    } else if (next.size() < size_t(o.beam)) {
      l.tokens.push_back(c.token);
      next.push_back(std::move(l));
      rows.push_back(i64(first_row + c.from));
    }
    ++rank;
  }
  s.live = std::move(next);
  if (length == o.max_length)
    for (Live& l : s.live) finish(s, std::move(l), false, o);
  if (length == o.max_length || s.found.size() >= size_t(o.beam)) {
    rows.resize(rows.size() - s.live.size());
    s.live.clear();
  }
}

std::vector<Hypothesis> sorted(std::vector<Hypothesis> found, i64 most) {
  std::stable_sort(found.begin(), found.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  if (found.size() > size_t(most)) found.resize(size_t(most));
  return found;
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(i64 count, const NextLogits& next,
                                                 const SearchOptions& o) {
  check(count, o);
  const NoGrad no_grad;
  std::vector<std::vector<Hypothesis>> all(static_cast<size_t>(count));
  std::vector<Sentence> open;
  for (size_t i = 0; i < all.size(); ++i) open.push_back({.number = i});
  std::vector<i64> tokens(all.size(), o.begin), rows(all.size());
  std::iota(rows.begin(), rows.end(), 0);
  for (i64 length = 1; !open.empty(); ++length) {
    const Tensor logits = allowed(checked_logits(next(tokens, rows), rows.size(), o), o);
    // Of 2 beam candidates at most beam are ends, so that beam can go on.
    const Best best = best_of(logits, 2 * o.beam);
    tokens.clear(), rows.clear();
    size_t row = 0;
    std::vector<Sentence> still;
    for (Sentence& s : open) {
      const size_t first = row;
      row += s.live.size();
      advance(s, first, best, length, o, rows);
      if (s.live.empty()) {
        all[s.number] = sorted(std::move(s.found), o.beam);
        continue;
      }
      for (const Live& l : s.live) tokens.push_back(l.tokens.back());
      still.push_back(std::move(s));
    }
    open = std::move(still);
  }
  return all;
}

std::vector<std::vector<i64>> greedy_search(i64 count, const NextLogits& next,
                                            const SearchOptions& o) {
  check(count, o);
  const NoGrad no_grad;
  std::vector<std::vector<i64>> all(static_cast<size_t>(count));
  std::vector<i64> tokens(all.size(), o.begin), rows(all.size());
  std::vector<size_t> open(all.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::iota(open.begin(), open.end(), size_t(0));
  for (i64 length = 1; !open.empty(); ++length) {
    const Tensor logits = allowed(checked_logits(next(tokens, rows), rows.size(), o), o);
    const auto [values, likeliest] = topk(logits, 1, 1);
    const std::vector<double> value = values.to(Device::cpu()).to(DType::f64).to_vector<double>();
    const std::vector<i64> token = likeliest.to(Device::cpu()).to_vector<i64>();
    tokens.clear(), rows.clear();
    std::vector<size_t> still;
    for (size_t r = 0; r < open.size(); ++r) {
      if (std::isnan(value[r]))
        throw NumericError(str("[greedy_search] logits of sentence ", open[r], " are NaN at token ",
                               length - 1, at_line()));
      if (token[r] == o.end) continue;
      all[open[r]].push_back(token[r]);
      if (length == o.max_length) continue;
      tokens.push_back(token[r]), rows.push_back(i64(r));
      still.push_back(open[r]);
    }
    open = std::move(still);
  }
  return all;
}

}  // namespace wt::models
