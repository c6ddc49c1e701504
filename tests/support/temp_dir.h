// A folder for one test case, removed with all its content at the end. In memory where that is
// possible: tests write thousands of files and synchronise many of them.
#pragma once
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

struct TempDir {
  TempDir() {
    const bool in_memory = !::getenv("TMPDIR") && ::access("/dev/shm", W_OK) == 0;
    std::string pattern = in_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    pattern += "/wt-test-XXXXXX";
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    path = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TempDir(const TempDir&) = delete;

  std::string operator/(std::string_view name) const { return path + "/" + std::string(name); }
  // How many entries have `part` in their name.
  int count(std::string_view part = "") const {
    int n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      n += entry.path().filename().string().find(part) != std::string::npos;
    }
    return n;
  }

  std::string path;
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void spit(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

// A file that begins with `content` and has so many bytes, of which the others take no place.
inline void spit_sparse(const std::string& path, std::string_view content, std::uintmax_t bytes) {
  spit(path, content);
  std::filesystem::resize_file(path, bytes);
}
