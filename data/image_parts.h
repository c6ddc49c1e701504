// Internal to read_image(): the parts of it that lie in files of their own.
#pragma once
#include <span>
#include <string>

#include "warptape/core/parse_limits.h"
#include "warptape/core/tensor.h"

namespace wt::data::detail {

// An uninitialised u8 [height, width, channels]. Throws DataError, with `at` as the byte, for sizes
// beyond the limits.
Tensor empty_image(const std::string& path, u64 at, u64 height, u64 width, u64 channels,
                   const ParseLimits& limits);

// `bytes` begin with the format's signature; `path` is for messages.
Tensor read_png(const std::string& path, std::span<const u8> bytes, const ParseLimits& limits);
Tensor read_jpeg(const std::string& path, std::span<const u8> bytes, const ParseLimits& limits);
Tensor read_webp(const std::string& path, std::span<const u8> bytes, const ParseLimits& limits);

}  // namespace wt::data::detail
