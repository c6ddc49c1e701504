#include "warptape/tools/wt/grade/support.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"

namespace wt::grade {
namespace {

namespace fs = std::filesystem;
constexpr const char* kFile = "grade.conf";

std::string found_folder() {
  if (const char* const named = std::getenv("WT_GRADE_DIR")) return named;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const char* const place : {"grade", "../share/warptape/grade"}) {
    const fs::path folder = program.parent_path() / place;
    if (fs::exists(folder / kFile, error)) return folder.string();
  }
  throw NotAvailable(
      "wt grade compiles kernels with parts that lie in grade/ beside wt or in "
      "share/warptape/grade "
      "where it is installed, and they are in neither; WT_GRADE_DIR names the folder. A build "
      "without "
      "simt has none");
}

}  // namespace

const char* flavour_name(Flavour f) {
  static const char* const names[] = {"plain", "asan", "race", "nvcc"};
  return names[int(f)];
}

Support read_support(const std::string& given) {
  const std::string folder = given.empty() ? found_folder() : given;
  const std::string path = folder + "/" + kFile;
  std::ifstream in(path);
  if (!in) throw NotAvailable(str("wt grade: ", printable_path(path), " cannot be read"));
  Support s;
  const auto absolute = [&](const std::string& name) {
    return fs::path(name).is_absolute() ? name
                                        : (fs::path(folder) / name).lexically_normal().string();
  };
  // A file beside this one, an option, or the option that names a folder of libraries.
  const auto linked = [&](const std::string& value) {
    const std::string rpath = "-Wl,-rpath,";
    if (value.starts_with(rpath)) return rpath + absolute(value.substr(rpath.size()));
    return value[0] == '-' ? value : absolute(value);
  };
  std::map<std::string, std::vector<std::string>*> lists{{"option", &s.options}};
  for (const Flavour f : kFlavours) {
    lists[std::string("option_") + flavour_name(f)] = &s.flavour_options[f];
    lists[std::string("link_") + flavour_name(f)] = &s.link_options[f];
  }
  u64 at = 0;
  for (std::string line; std::getline(in, line); at += line.size() + 1) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.find(' ');
    const std::string key = line.substr(0, space);
    const std::string value = space == line.npos ? "" : line.substr(space + 1);
    if (value.empty()) continue;  // a part that this build has not
    if (key == "compiler")
      s.compiler = value;
    else if (key == "include")
      s.includes.push_back(absolute(value));
    else if (key == "library")
      s.libraries.push_back(linked(value));
    else if (key == "nvcc")
      s.nvcc = value;
    else if (key == "cuda")
      s.cuda.push_back(linked(value));
    else if (key == "race")
      s.race.push_back(linked(value));
    else if (const auto list = lists.find(key); list != lists.end())
      list->second->push_back(value);
    else
      data_error(path, at, str("'", printable(key), "' means nothing here"));
  }
  if (s.compiler.empty()) data_error(path, at, "it names no compiler");
  return s;
}

}  // namespace wt::grade
