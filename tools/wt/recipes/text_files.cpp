#include "warptape/tools/wt/recipes/text_files.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/core/str.h"
#include "warptape/data/bytes.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;

// The checkout: WT_SOURCE_DIR, or the first folder that looks like it above the program or above
// the current folder.
fs::path source_root() {
  if (const char* given = std::getenv("WT_SOURCE_DIR")) return given;
  std::error_code ec;
  for (const fs::path& start : {fs::read_symlink("/proc/self/exe", ec), fs::current_path(ec) / "x"})
    for (fs::path at = start.parent_path(); !at.empty(); at = at.parent_path()) {
      if (fs::exists(at / "core/tensor.h", ec) && fs::exists(at / "tools/wt/wt.cpp", ec)) return at;
      if (at == at.root_path()) break;
    }
  throw DataError("warptape's sources are not above this program or folder\n  Try --data FILE");
}

// The project's own texts, in a fixed order.
std::vector<std::string> own_sources() {
  std::vector<std::string> files;
  const fs::path root = source_root();
  for (const char* folder :
       {"core", "kernels", "autograd", "nn", "optim", "data", "tools", "docs"}) {
    std::error_code ec;
    for (fs::recursive_directory_iterator it(root / folder, ec), end; !ec && it != end;
         it.increment(ec)) {
      const std::string tail = it->path().extension().string();
      if (tail == ".h" || tail == ".cpp" || tail == ".cu" || tail == ".cuh" || tail == ".md")
        files.push_back(it->path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<std::string> text_files(const std::string& data) {
  if (data.empty()) return own_sources();
  std::error_code ec;
  if (!fs::is_directory(data, ec)) return {data};
  const auto check = [&](const fs::path& path) {
    if (ec) throw DataError(printable_path(path.string()) + ": cannot be read: " + ec.message());
  };
  std::vector<std::string> files;
  fs::directory_iterator it(data, ec);
  check(data);
  for (const fs::directory_iterator end; it != end; it.increment(ec), check(data)) {
    // A link that leads nowhere is none of the files; one that leads in a circle hides one.
    const fs::file_status status = it->status(ec);
    if (status.type() == fs::file_type::not_found) ec.clear();
    check(it->path());
    if (fs::is_regular_file(status)) files.push_back(it->path().string());
  }
  if (files.empty()) throw DataError(printable_path(data) + ": the folder has no files");
  std::sort(files.begin(), files.end());
  return files;
}

i64 text_bytes(const std::string& data) {
  i64 n = 0;
  for (const std::string& f : text_files(data)) n += i64(data::content_size(f));
  return n;
}

}  // namespace wt::tools
