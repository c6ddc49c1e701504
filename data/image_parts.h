// Internal to read_image(): the parts of it that lie in files of their own.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/parse_limits.h"
#include "warptape/core/tensor.h"

namespace wt::data::detail {

// An uninitialised u8 [height, width, channels]. Throws DataError, with `at` as the byte, for sizes
// beyond the limits.
Tensor empty_image(const std::string& path, u64 at, u64 height, u64 width, u64 channels,
                   const ParseLimits& limits);

// `bytes` begin with a PNG file's signature.
Tensor read_png(const std::string& path, const std::vector<u8>& bytes, const ParseLimits& limits);

}  // namespace wt::data::detail
