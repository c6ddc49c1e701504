// Text from a model of bytes.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {

struct GenerateOptions {
  std::string prompt = "\n";  // not empty
  i64 bytes = 400;
  double temperature = 0.8;  // 0: always the likeliest byte
  i64 top_k = 0;             // draw among the k likeliest; 0: among all
  u64 seed = 1;
};

// What the model goes on with after the prompt, drawn byte by byte; `show` gets each byte as it
// comes, and ends the text early by returning false. The same seed gives the same text; the ambient
// generator is not touched. Throws UsageError unless the recipe models text and the options make
// sense.
std::string generate(Recipe& r, const GenerateOptions& o,
                     const std::function<bool(char)>& show = {});

}  // namespace wt::tools
