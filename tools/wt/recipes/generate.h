// Text from a recipe's model.
#pragma once
#include <functional>
#include <string>

#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {

struct GenerateOptions {
  std::string prompt = "\n";  // not empty
  i64 tokens = 400;           // of a model of bytes these are bytes
  double temperature = 0.8;   // 0: always the likeliest token
  // As in nn/generate.h.
  i64 top_k = 0;
  double top_p = 1;
  double repetition_penalty = 1;
  u64 seed = 1;
};

// What the model goes on with after the prompt, drawn token by token; of what is beyond its context
// it forgets a quarter at a time. `show` gets each byte as it comes, and ends the text early by
// returning false. The same seed gives the same text; the ambient generator is not touched. Throws
// UsageError unless the recipe models text and the options make sense.
std::string generate(Recipe& r, const GenerateOptions& o,
                     const std::function<bool(char)>& show = {});

}  // namespace wt::tools
