// A GGUF file as a source of GPT-2's weights. Internal.
#pragma once
#include "warptape/nn/gguf.h"
#include "warptape/nn/weight_source.h"

namespace wt::models::detail {

// Under Hugging Face's names, in its layouts. Throws UsageError for another architecture.
nn::detail::WeightSource source_of(nn::GgufFile file);

}  // namespace wt::models::detail
