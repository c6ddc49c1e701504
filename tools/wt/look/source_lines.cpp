#include "warptape/tools/wt/look/source_lines.h"

#include <filesystem>
#include <fstream>

namespace wt::tools {

std::vector<std::string> source_lines(const std::string& folder, const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<fs::path> tried{path};
  for (size_t slash = path.rfind('/'); slash != path.npos && slash > 0;
       slash = path.rfind('/', slash - 1))
    tried.push_back(fs::path(folder) / path.substr(slash + 1));
  std::vector<std::string> lines;
  for (const fs::path& p : tried) {
    std::error_code error;
    if (!fs::is_regular_file(p, error)) continue;
    std::ifstream in(p);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    break;
  }
  return lines;
}

std::string line_text(const std::vector<std::string>& lines, int number) {
  return number >= 1 && size_t(number) <= lines.size() ? lines[size_t(number) - 1] : "";
}

}  // namespace wt::tools
