// Internal to image folders: which files there are.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::data::detail {

struct FolderFile {
  std::string path;
  i64 label = 0;
  // As it was listed.
  u64 bytes = 0;
  i64 seconds = 0, nanoseconds = 0;  // of its last change
};

struct FolderFiles {
  std::vector<std::string> classes;
  std::vector<FolderFile> files;
  i64 left_out = 0;
};

// See ImageFolder. Throws DataError.
FolderFiles list_image_folder(const std::string& root, bool allow_empty);
// Throws DataError if it is no longer what was listed.
void check_unchanged(const FolderFile& f);

}  // namespace wt::data::detail
