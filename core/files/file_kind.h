// What a file is that is not what a reader expected, by its first bytes: for the message that
// refuses it. Internal.
#pragma once
#include <string>
#include <string_view>

#include "warptape/core/input_file.h"

namespace wt {

// "a PyTorch file (...), not safetensors...\n  Try ...", or another format that weights come in, or
// empty. Content decides; the name only where PyTorch's formats cannot be told by it.
WT_API std::string kind_of_file(const InputFile& file);

// Whether a zip archive's member of this name makes it one that torch.save wrote.
WT_API bool is_pytorch_member(std::string_view name);
// What is said of such an archive where `wanted` was expected.
WT_API std::string pytorch_archive(const InputFile& file, std::string_view wanted);

}  // namespace wt
