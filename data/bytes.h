// Whole files as bytes, plain or gzip, within limits. Internal to the readers of this folder.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/parse_limits.h"

namespace wt::data {

// The content of `path`; a gzip file (by its magic, not its name) is inflated. Throws DataError
// with the path and offset for a missing, damaged or oversized file (declared sizes are not
// trusted), and NotAvailable for gzip in a build without zlib.
std::vector<u8> read_bytes(const std::string& path, const ParseLimits& limits = {});
// At most its first `n` bytes (inflated), reading little more than these from the disk.
std::vector<u8> read_first_bytes(const std::string& path, size_t n);
// How many bytes read_bytes() would give; a gzip file must be inflated for that.
u64 content_size(const std::string& path);

}  // namespace wt::data
