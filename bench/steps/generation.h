// Text from a model by name, token by token with its cache: what a token costs. The other side:
// bench/peers/generate.py.
#pragma once
#include <string>
#include <vector>

#include "warptape/bench/gpu/measure.h"

namespace wt::bench {

struct GenerationOptions {
  Device device{};
  std::string model = "gpt2";     // of generation_models()
  std::string precision = "f32";  // f32, f16, bf16: of weights, cache and logits
  i64 batch = 1;                  // rows that are written at a time
  i64 prompt = 64, tokens = 64;   // of a row: what is there, and what comes after it
  std::string weights{};          // a file of models::load(); empty: drawn, the same ones each time
  std::string save{};             // above: the weights, in f32, to this safetensors file
  int windows = 5;                // so many times the whole text, after one that is not timed
};

// gpt2, gpt2_medium.
const std::vector<std::string>& generation_models();

// Greedy, without gradients; seeds the ambient generator. `time` is of a step, one token in each
// row, in windows of tokens - 1 steps; the first token comes out of the prompt's step, whose time
// is `more`'s prompt_us, the cache's making in it. more: prompt_us (median), min_prompt_us,
// tokens_per_s (median, of all rows), best_tokens_per_s, weight_bytes, cache_bytes; words:
// new_tokens, row after row, the same in every window. bytes: weights. Throws UsageError for an
// unknown name, for fewer than two tokens and for what models::load_weights() and generate()
// refuse.
Row generation(const GenerationOptions& o);

}  // namespace wt::bench
