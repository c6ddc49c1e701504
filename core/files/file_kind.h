// What a file is that is not what a reader expected, by its first bytes: for the message that
// refuses it. Internal.
#pragma once
#include <string>

#include "warptape/core/input_file.h"

namespace wt {

// "a PyTorch file (...)\n  Try ...", or another format that weights come in, or empty. Content
// decides; the name only where PyTorch's formats cannot be told by it.
WT_API std::string kind_of_file(const InputFile& file);

}  // namespace wt
