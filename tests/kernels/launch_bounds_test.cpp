// Every kernel says how many threads its blocks have at most. Without the bound the compiler may
// give each thread so many registers that a block of 1,024 cannot be launched, which no test
// without hardware sees.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "warptape/tests/support/catch.h"

TEST_CASE("kernels: every one has launch bounds") {
  namespace fs = std::filesystem;
  int kernels = 0;
  for (const auto& entry : fs::recursive_directory_iterator(WT_SOURCE_DIR "/kernels")) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cu" && extension != ".cuh") continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    // Outside comments: a definition begins a line.
    const std::string source = "\n" + text.str();
    const std::regex kernel("\n__global__ void(\\s+)(\\w+)");
    for (std::sregex_iterator it(source.begin(), source.end(), kernel), end; it != end; ++it) {
      ++kernels;
      INFO(entry.path().filename().string() << ": " << (*it)[2].str());
      CHECK((*it)[2].str() == "__launch_bounds__");
    }
  }
  CHECK(kernels > 60);
}
