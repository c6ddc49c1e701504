// Decoding: the sentences that a model finds likely, token by token, for many at a time.
//
//   const auto found = models::beam_search(n, next, {.begin = 1, .end = 2, .beam = 4});
//   found[i][0].tokens                                 // the best one of sentence i
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "warptape/core/misnamed.h"
#include "warptape/core/tensor.h"

namespace wt::models {

// How a sum of log-probabilities is made comparable between lengths: it is divided by
// wu: ((5 + n) / 6)^alpha (Wu et al. 2016, arXiv:1609.08144, formula 14); power: n^alpha, as
// fairseq and Hugging Face do. n counts the end.
enum class LengthPenalty : u8 { wu, power };

// How sentences are searched for: where they begin and end, and how many are followed.
struct SearchOptions {
  i64 begin = -1, end = -1;     // tokens that must be given: what a sentence begins and ends with
  i64 beam = 4;                 // sentences that are followed at a time, at least 1
  double length_penalty = 0.6;  // alpha; 0: none, and short ones win
  LengthPenalty penalty = LengthPenalty::wu;  // the formula that has alpha
  i64 max_length = 128;      // tokens, the end among them; longer ones are cut there
  std::vector<i64> never{};  // tokens that are not to come, as padding
  WT_MISNAMED(num_beams, beam);
  WT_MISNAMED(beam_size, beam);
  WT_MISNAMED(lenpen, length_penalty);
  WT_MISNAMED(eos_token_id, end);
  WT_MISNAMED(bos_token_id, begin);
};

// A sentence that beam_search() has found.
struct Hypothesis {
  std::vector<i64> tokens;     // without beginning and end
  double log_probability = 0;  // of the tokens and the end, natural
  double score = 0;            // log_probability by the length penalty
  bool ended = false;          // false: cut at max_length
};

// The logits [rows, V] of what comes next in as many sentences, on any device. `tokens` are their
// newest ones, and sentence i goes on from that of row rows[i] of the call before: sentences that
// are done leave, and several may go on from one. The first call has `begin` for each of 0, 1, ...
using NextLogits = std::function<Tensor(std::span<const i64> tokens, std::span<const i64> rows)>;

// Of each of `count` sentences up to `beam` hypotheses, the best score first, of equal ones that
// which was found first. Each step keeps the likeliest `beam` that go on; an end is taken where it
// is among the likeliest `beam`, and a sentence is done with `beam` ends. Logits are taken in f32,
// log-probabilities added up in f64. Records nothing. Throws UsageError for options that make no
// sense, ShapeError for logits of another shape, IndexError for a token of `never` outside of them,
// NumericError for NaN.
WT_API std::vector<std::vector<Hypothesis>> beam_search(i64 count, const NextLogits& next,
                                                        const SearchOptions& o);
// Always the likeliest token, of equal ones the first: what a beam of 1 finds, without sorting. The
// tokens of each of `count` sentences, without beginning and end. Of the options `beam` and the
// penalty do not count. Throws what beam_search() throws.
WT_API std::vector<std::vector<i64>> greedy_search(i64 count, const NextLogits& next,
                                                   const SearchOptions& o);

}  // namespace wt::models
