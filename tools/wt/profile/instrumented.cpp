#include "warptape/tools/wt/profile/instrumented.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/kernels/simt/counters.h"

namespace wt::tools {

void become_instrumented() {
  if (simt_can_count()) return;
  std::error_code error;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  program.replace_filename("wt_race");
  if (!error && std::filesystem::exists(program, error)) {
    std::vector<std::string> words;
    std::ifstream line("/proc/self/cmdline", std::ios::binary);
    for (std::string word; std::getline(line, word, '\0');) words.push_back(word);
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
  }
  throw UsageError(
      "counting needs kernels compiled for it, in the program wt_race beside this one: configure "
      "with -DWARPTAPE_FLAVOURS='plain;race' and build wt_race");
}

}  // namespace wt::tools
