// Where the recipes of text have it from.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::tools {

// The files that a --data means, in order: the file, those of the folder, or, where it is empty,
// the project's own sources. Throws DataError for what cannot be read and for an empty folder.
std::vector<std::string> text_files(const std::string& data);
// Their bytes, inflated, in all.
i64 text_bytes(const std::string& data);

}  // namespace wt::tools
