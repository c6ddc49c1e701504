// Real data that is not part of the tree: WT_TEST_DATA, or the folder shared/data beside the
// checkout. Empty if the file is absent; the test then says SKIP_TEST.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

inline std::string test_data(std::string_view name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (const char* const given = std::getenv("WT_TEST_DATA")) {
    const fs::path file = fs::path(given) / name;
    return fs::exists(file, ignored) ? file.string() : "";
  }
  // Tests run somewhere in the build tree, which lies in the checkout.
  for (fs::path at = fs::current_path(); at != at.root_path(); at = at.parent_path()) {
    const fs::path file = at.parent_path() / "shared/data" / name;
    if (fs::exists(file, ignored)) return file.string();
  }
  return "";
}
