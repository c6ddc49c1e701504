// Text from a model, token by token, with a cache of what it has seen:
//
//   auto net = models::gpt2();
//   ...                                                 // its weights
//   const auto texts = models::generate(net, {{464, 3290}, {15496}},
//                                       {.max_new_tokens = 40, .do_sample = true, .top_k = 50});
//
// Options have the names and meanings of Hugging Face's generate(); top_k is off unless given.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "warptape/core/misnamed.h"
#include "warptape/nn/gpt2.h"
#include "warptape/nn/kv_cache.h"

namespace wt::models {

// How tokens are chosen and where rows end.
struct GenerateOptions {
  i64 max_new_tokens = 20;  // of each row; 0: the prompts come back
  bool do_sample = false;   // draw by the odds; false: always the likeliest, the first of equals
  // Logits are changed in this order; what is 1 (of top_k: 0) changes nothing. temperature, top_k
  // and top_p are for sampling: UsageError without do_sample.
  double repetition_penalty = 1;  // tokens that were there: above 0 divided by it, below multiplied
  double temperature = 1;         // all are divided by it
  i64 top_k = 0;                  // those below the k-th largest are out
  double top_p = 1;  // the likeliest stay whose odds first add up to it (Holtzman et al. 2019)
  // Each ends its row and is its last token.
  std::vector<i64> stop_tokens = {};
  // Row i draws from seeds[i], one a prompt, or where they are empty from seed + i: the same tokens
  // whatever other rows there are. The ambient generator is not touched.
  u64 seed = 1;
  std::vector<u64> seeds = {};
  // What happens when the context is full: an error that is said before the first token (0); or so
  // many of a row's oldest tokens are left out at a time, what stays is computed anew at the
  // positions from 0 on, and the row goes on. 1 is what looking back at the last `context` tokens
  // is, at the price of computing all of them for each token; a quarter of the context costs
  // little.
  i64 slide = 0;
  // Sees each token as it comes, stop tokens too; ends the row by returning false.
  std::function<bool(i64 row, i64 token)> on_token = {};
  WT_MISNAMED(eos_token_id, stop_tokens);
  WT_MISNAMED(max_tokens, max_new_tokens);
  WT_MISNAMED_SAYS(max_length, "max_new_tokens is how many come after the prompt");
  WT_MISNAMED_SAYS(pad_token_id, "rows of different lengths need no padding here");
};

// A model as generate() sees it: sizes, and how logits are got from it.
struct Decoder {
  nn::ModuleBase model;        // in eval mode meanwhile
  i64 vocabulary = 0;          // ids are below it
  KvCacheSize size = {};       // of a cache; its context is the most tokens the model sees
  TensorOptions options = {};  // of the cache: the dtype and device of keys and values
  // Of the tokens [N, T] that a step of the cache has begun with: the logits after the last one of
  // each row, [N, vocabulary].
  std::function<Tensor(const Tensor& ids, KvCache& cache)> logits = {};
};
// A decoder of a GPT-2, whose weights it shares; the cache is as the table of tokens: its dtype, on
// its device.
WT_API Decoder decoder_of(const Gpt2& net);

// The prompts, each followed by what the model goes on with: at most max_new_tokens, fewer where a
// row has met a stop token. Prompts may differ in length. Each row is what it would be alone, and
// what computing its whole text anew for every token would give, up to the rounding of sums. The
// model is in eval mode meanwhile. Throws UsageError for options that make no sense, no prompts or
// empty ones, and rows that outgrow the context, IndexError for ids outside the vocabulary, each
// naming all such rows; NumericError where a logit is NaN or infinite, -infinity aside.
WT_API std::vector<std::vector<i64>> generate(const Decoder& decoder,
                                              const std::vector<std::vector<i64>>& prompts,
                                              const GenerateOptions& o = {});
WT_API std::vector<std::vector<i64>> generate(const Gpt2& net,
                                              const std::vector<std::vector<i64>>& prompts,
                                              const GenerateOptions& o = {});

// Changes the logits of a row in place, as generate() does after `text` before it draws: what is
// out becomes -infinity. Without do_sample only the repetition penalty counts. Throws
// NumericError where top_p is below 1 and the largest logit is not finite.
WT_API void process_logits(std::span<double> logits, std::span<const i64> text,
                           const GenerateOptions& o);
// A token by softmax(logits), from a uniform number in [0, 1). Throws NumericError where the
// largest is not finite: process_logits() may make it so, by a tiny temperature.
WT_API i64 draw_token(std::span<const double> logits, double uniform);

}  // namespace wt::models
