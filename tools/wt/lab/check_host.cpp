// Host labs: the student's file, linked with hidden cases and the framework; a process a case.
#include <csignal>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/confined/sandbox.h"
#include "warptape/tools/wt/confined/scratch.h"
#include "warptape/tools/wt/lab/check.h"
#include "warptape/tools/wt/lab/class_key.h"
#include "warptape/tools/wt/lab/json_value.h"

namespace wt::labs {
namespace {

namespace fs = std::filesystem;
using confined::Clock;
using confined::Ended;

struct Listed {
  int number = 0;
  std::string name{};
  int points = 0;
  bool challenge = false;
};

struct Ran {
  Ended ended;
  std::string output;
};

class HostCheck {
 public:
  HostCheck(const Lab& lab, const CheckOptions& o, Outcome& to) : lab_(lab), o_(o), to_(to) {}

  void run() {
    const grade::Compiled c = grade::compile_kernel(support(), o_.file, scratch_.path(),
                                                    grade::Flavour::plain, kCompileSeconds);
    if (c.program.empty()) return to_.rows.push_back(row_of_compiler(lab_, c, o_.file));
    program_ = c.program;
    const Ran listed = start({"--list"});
    const std::vector<Listed> cases = cases_of(listed.output);
    if (listed.ended.how != Ended::How::exited || listed.ended.code != 0 || cases.empty())
      return whole(of_end(listed), hint_of_end(listed));
    for (const Listed& c : cases) judge(c);
  }

 private:
  grade::Support support() const {
    grade::Support s = grade::read_support(support_folder());
    s.includes.insert(s.includes.begin(), lab_.folder);
    const std::string archive = fs::absolute(lab_.folder + "/libcheck.a").string();
    std::error_code error;
    if (!fs::exists(archive, error))
      throw NotAvailable(str("wt lab: the hidden cases of lab ", lab_.number, " are not in ",
                             printable_path(lab_.folder)));
    const std::string packed = key_of_labs(fs::path(lab_.folder).parent_path().string()).version;
    if (!packed.empty() && packed != build_info().version)
      throw NotAvailable(str("wt lab: the hidden cases in ", printable_path(lab_.folder),
                             " were compiled with warptape ", printable(packed), ", and this is ",
                             build_info().version, ": the pack has to be of the same version"));
    s.libraries.insert(s.libraries.begin(),
                       {"-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"});
    return s;
  }
  // Of the labs that were handed out, or else of this installation.
  std::string support_folder() const {
    const fs::path beside = fs::path(lab_.folder).parent_path() / "host";
    std::error_code error;
    if (fs::exists(beside / "grade.conf", error)) return beside.string();
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    for (const char* const place : {"labs/host", "../share/warptape/labs/host"})
      if (const fs::path p = (program.parent_path() / place).lexically_normal();
          fs::exists(p / "grade.conf", error))
        return p.string();
    throw NotAvailable("wt lab: this wt has no labs/host/grade.conf, which says how to link");
  }

  Ran start(const std::vector<std::string>& arguments) const {
    confined::Process::Start s{.command = {program_},
                               .environment = {"LC_ALL=C", "OMP_NUM_THREADS=2"},
                               .folder = scratch_.path()};
    s.command.insert(s.command.end(), arguments.begin(), arguments.end());
    s.limits = {.cpu_seconds = o_.seconds, .confined = true};
    confined::Process p(s);
    // On a machine that is busy it waits longer than it runs.
    const Ended ended =
        p.wait(Clock::now() + std::chrono::milliseconds(i64(o_.seconds * 1000 + 10'000)));
    return {ended, p.output()};
  }

  static std::vector<Listed> cases_of(const std::string& text) {
    std::vector<Listed> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("{\"lab_case\":")) continue;
      const Json j = read_json(line, "the list of cases");
      all.push_back({int(j.whole("lab_case")), j.string("name"), int(j.whole("points")),
                     j.flag("challenge")});
    }
    return all;
  }

  void judge(const Listed& c) {
    const std::string key = std::to_string(fresh_seed()) + std::to_string(fresh_seed());
    const Ran ran = start(
        {"--case", std::to_string(c.number), "--seed", std::to_string(o_.seed), "--key", key});
    Json said;
    if (const size_t at = ran.output.rfind("\n{\"lab_case\":"); at != std::string::npos) {
      try {
        const size_t begin = at + 1;
        said =
            read_json(ran.output.substr(begin, ran.output.find('\n', begin) - begin), "the case");
      } catch (const DataError&) {
        said = {};
      }
    }
    OutcomeRow r{.name = c.name, .points = c.points};
    if (said.string("key") != key) {
      r = failed_row(lab_, c.name, c.points, of_end(ran), hint_of_end(ran));
    } else if (!said.flag("passed")) {
      r = failed_row(lab_, c.name, c.points, said.string("reason"), said.string("hint"));
    } else {
      r.passed = true;
    }
    r.challenge = c.challenge;
    to_.rows.push_back(std::move(r));
  }

  void whole(const std::string& reason, const std::string& hint) {
    to_.rows.push_back(failed_row(lab_, "it runs", 100, reason, hint));
  }

  // --- a process that did not say how it ended ---
  static std::string hint_of_end(const Ran& r) {
    if (r.ended.how == Ended::How::late) return "hang";
    if (r.ended.how == Ended::How::memory) return "memory";
    if (r.ended.how == Ended::How::exited) return "exit";
    if (r.ended.code == SIGXCPU) return "hang";
    if (r.ended.code == SIGXFSZ) return "printed";
    return r.ended.code == SIGSYS ? "sandbox" : "crash";
  }
  std::string of_end(const Ran& r) const {
    const std::string hint = hint_of_end(r);
    if (hint == "hang") return str("it does not come back within ", o_.seconds, " s");
    if (hint == "memory") return "it takes more than 1 GiB of memory";
    if (hint == "exit") return str("it ended the process with exit code ", r.ended.code);
    if (hint == "printed") return "it prints more than 1 MiB";
    if (hint == "sandbox") return "it does what the sandbox forbids (a file, a socket, a process)";
    const char* const name = ::strsignal(r.ended.code);
    return str("it crashes: ", name ? name : "signal", last_words(r.output));
  }
  // The last line that it printed, where there is one.
  static std::string last_words(const std::string& output) {
    const size_t end = output.find_last_not_of("\n ");
    if (end == std::string::npos) return "";
    const size_t begin = output.rfind('\n', end);
    const size_t first = begin == std::string::npos ? 0 : begin + 1;
    return " (" + output.substr(first, std::min<size_t>(end + 1 - first, 200)) + ")";
  }

  const Lab& lab_;
  const CheckOptions& o_;
  Outcome& to_;
  confined::Scratch scratch_;
  std::string program_;
};

}  // namespace

void check_cases(const Lab& lab, const CheckOptions& o, Outcome& to) {
  HostCheck(lab, o, to).run();
}

}  // namespace wt::labs
