// Numbers from PyTorch that tests compare with: tools/generators/make_reference.py writes them and
// describes the format. Standard library only.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace wt::reference {

struct Array {
  std::string dtype;                // "f64", "f32" or "i64": what the numbers were computed in
  std::vector<std::int64_t> shape;  // {} for a scalar
  std::vector<double> values;       // row-major; exact for all three dtypes
};

using Arrays = std::map<std::string, Array>;

namespace detail {

// One file and where in it the reader is, for the error text.
struct Source {
  std::string path;
  std::ifstream in;
  int line_number = 0;

  bool next(std::string& line) {
    if (!std::getline(in, line)) return false;
    ++line_number;
    return true;
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(path + ":" + std::to_string(line_number) + ": " + why);
  }
};

inline std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  while ((begin = line.find_first_not_of(' ', begin)) != std::string::npos) {
    const std::size_t end = line.find(' ', begin);
    out.push_back(line.substr(begin, end - begin));
    if (end == std::string::npos) break;
    begin = end;
  }
  return out;
}

inline std::vector<std::int64_t> parse_shape(const std::string& text, const Source& from) {
  std::vector<std::int64_t> shape;
  if (text == "scalar") return shape;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    const std::string size = text.substr(begin, end - begin);
    if (size.empty() || size.size() > 9 ||
        size.find_first_not_of("0123456789") != std::string::npos) {
      from.fail("'" + text + "' is no shape");
    }
    shape.push_back(std::stoll(size));
    begin = end + 1;
  }
  return shape;
}

inline double parse_value(const std::string& word, const Source& from) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (end != word.c_str() + word.size()) from.fail("'" + word + "' is no number");
  return value;
}

}  // namespace detail

// Reads every array of the file `path`, by name. Throws std::runtime_error, naming the line, if the
// file is missing, cut off or anything but what make_reference.py writes.
inline Arrays load_reference(const std::string& path) {
  detail::Source from{path, std::ifstream(path)};
  if (!from.in) from.fail("cannot be opened");
  Arrays arrays;
  std::string line;
  while (from.next(line)) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> header = detail::words(line);
    if (header.size() != 3) from.fail("expected NAME DTYPE SHAPE, found '" + line + "'");
    const auto [at, added] = arrays.try_emplace(header[0]);
    if (!added) from.fail("a second array named '" + header[0] + "'");
    Array& array = at->second;
    array.dtype = header[1];
    if (array.dtype != "f64" && array.dtype != "f32" && array.dtype != "i64") {
      from.fail("unknown dtype '" + array.dtype + "'");
    }
    array.shape = detail::parse_shape(header[2], from);
    std::size_t count = 1;
    for (const std::int64_t size : array.shape) count *= static_cast<std::size_t>(size);
    while (array.values.size() < count) {
      if (!from.next(line)) from.fail("ends inside '" + header[0] + "'");
      for (const std::string& word : detail::words(line)) {
        array.values.push_back(detail::parse_value(word, from));
      }
    }
    if (array.values.size() > count) from.fail("too many values for '" + header[0] + "'");
  }
  return arrays;
}

// A file of WT_TEST_REFERENCE, or of tests/reference of the checkout that the test runs in. A path
// that does not exist if there is neither.
inline std::string reference_file(const std::string& file) {
  namespace fs = std::filesystem;
  if (const char* const given = std::getenv("WT_TEST_REFERENCE")) {
    return (fs::path(given) / file).string();
  }
  std::error_code ignored;
  for (fs::path at = fs::current_path(); !at.empty(); at = at.parent_path()) {
    const fs::path candidate = at / "tests/reference" / file;
    if (fs::exists(candidate, ignored) || at == at.root_path()) return candidate.string();
  }
  return file;
}
// The file of a case, "sgd_plain_f32".
inline std::string reference_path(std::string_view name) {
  return reference_file(std::string(name) + ".txt");
}

}  // namespace wt::reference
