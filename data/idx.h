// IDX, the format of MNIST and its family: big-endian magic (0, 0, type, rank), sizes, then the
// elements. http://yann.lecun.com/exdb/mnist/
#pragma once
#include <string>

#include "warptape/core/parse_limits.h"
#include "warptape/core/tensor.h"

namespace wt::data {

// The file as a u8 tensor of its shape, on the cpu; other element types are refused. Gzip is
// recognised. The file must be exactly as long as its header says. Throws DataError with path and
// offset.
WT_API Tensor read_idx(const std::string& path, const ParseLimits& limits = {});
// The shape of a file's tensor, from the header alone. Throws DataError for what is no IDX header.
WT_API Shape idx_shape(const std::string& path);

}  // namespace wt::data
