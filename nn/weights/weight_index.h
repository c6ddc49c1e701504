// The index of weights that lie in several files. Internal.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/parse_limits.h"
#include "warptape/core/safetensors.h"

namespace wt::nn::detail {

inline constexpr const char* kOneFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

struct WeightIndex {
  StringPairs metadata;            // those that are text
  StringPairs weight_map;          // tensor, file; by tensor, each once
  std::vector<std::string> twice;  // tensors that the text has more than once
};

// Throws DataError for anything but an index, naming file and byte. A file's name is a plain name
// that ends in .safetensors.
WT_API WeightIndex read_weight_index(const std::string& path, const ParseLimits& limits = {});

}  // namespace wt::nn::detail
