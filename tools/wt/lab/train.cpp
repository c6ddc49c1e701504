#include "warptape/tools/wt/lab/train.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/kernels/dispatch/run_kernel_file.h"
#include "warptape/tools/wt/confined/scratch.h"
#include "warptape/tools/wt/grade/compile.h"
#include "warptape/tools/wt/std_output.h"

namespace wt::labs {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<char*> pointers_of(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& w : words) all.push_back(w.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_with(const std::string& kernels, const std::string& file) {
  std::vector<std::string> all{"WT_KERNEL=" + kernels, "WT_KERNEL_FILE=" + file};
  for (char** at = environ; *at; ++at)
    if (std::strncmp(*at, "WT_KERNEL=", 10) && std::strncmp(*at, "WT_KERNEL_FILE=", 15))
      all.push_back(*at);
  return all;
}

// With the signals as a shell would give them: this process waits for them in a thread.
int run_wt(std::vector<std::string> words, std::vector<std::string> environment) {
  const std::vector<char*> argv = pointers_of(words), envp = pointers_of(environment);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, "/proc/self/exe", nullptr, &how, argv.data(), envp.data());
  posix_spawnattr_destroy(&how);
  if (error) throw OutOfMemory(str("[lab] no process: ", std::strerror(error)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int train_with(const Lab& lab, const Outcome& checked) {
  const confined::Scratch scratch;
  const grade::Compiled c = grade::compile_shared(grade::read_support(), checked.file,
                                                  scratch.path(), detail::kernel_file_stamp(), 60);
  if (c.program.empty())
    throw UsageError(str("--train: it does not compile as a shared object: ", c.output));
  std::vector<std::string> words = words_of("wt " + lab.real);
  std::printf("with %s: wt %s\n", printable(checked.variants, 400).c_str(), lab.real.c_str());
  tools::flush_stdout();
  if (words.size() > 1 && words[1] == "train")
    words.insert(words.end(), {"--out", scratch.path() + "/run"});
  return run_wt(std::move(words), environment_with(checked.variants, c.program));
}

}  // namespace wt::labs
