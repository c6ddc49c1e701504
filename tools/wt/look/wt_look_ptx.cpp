#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "warptape/core/error.h"
#include "warptape/core/stream.h"
#include "warptape/tools/wt/confined/process.h"
#include "warptape/tools/wt/confined/scratch.h"
#include "warptape/tools/wt/look/look_ptx.h"
#include "warptape/tools/wt/look/ptx_listing.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kLaunch[] = "WT_LOOK_PTX";  // the variant to launch: set for the child alone
constexpr double kMostSeconds = 60;        // of a processor

// Where tools/emulate finds them, beside this program; empty: they were not built.
std::string emulator_folder() {
  std::error_code error;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path() / "emulator";
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with("libcudart.so")) return folder.string();
  return "";
}

std::vector<std::string> own_command() {
  std::vector<std::string> words;
  std::ifstream line("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(line, word, '\0');) words.push_back(word);
  std::error_code error;
  if (!words.empty()) words[0] = fs::read_symlink("/proc/self/exe", error).string();
  return words;
}

std::vector<std::string> child_environment(const std::string& emulator, const std::string& profile,
                                           const std::string& variant) {
  std::vector<std::string> all{str("LD_LIBRARY_PATH=", emulator), "WT_EMU_PROFILE=" + profile,
                               "WT_EMU_STREAMS=eager", "WT_EMU_CHECK=report",
                               str(kLaunch, "=", variant)};
  for (char** e = environ; *e; ++e) {
    const std::string_view v = *e;
    if (!v.starts_with("LD_LIBRARY_PATH=") && !v.starts_with("WT_EMU_")) all.emplace_back(v);
  }
  return all;
}

// What the child said at last.
std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

void launch_emulated(Look& look, const std::string& emulator) {
  const confined::Scratch scratch;
  const std::string profile = scratch.path() + "/profile.tsv";
  confined::Process::Start start{.command = own_command(),
                                 .environment = child_environment(emulator, profile, look.variant),
                                 .folder = fs::current_path().string()};
  start.limits.cpu_seconds = kMostSeconds;
  start.limits.memory = i64{8} << 30;
  start.limits.file_bytes = i64{256} << 20;
  confined::Process child(start);
  const confined::Ended end =
      child.wait(confined::Clock::now() + std::chrono::seconds(i64(kMostSeconds) * 4));
  if (end.how == confined::Ended::How::exited && end.code == 0) {
    take_ptx(look, read_ptx_profile(profile));
    return;
  }
  look.no_ptx = end.how == confined::Ended::How::exited
                    ? str("on the emulated device it ends with exit code ", end.code, ": ",
                          last_line(child.output()))
                    : "on the emulated device it does not come to an end";
}

}  // namespace

bool is_ptx_launch() { return std::getenv(kLaunch) != nullptr; }

void launch_for_ptx(const LookRequest& r, const Wanted& w) {
  const Device cuda = Device::cuda(0);
  const bench::Problem p = problem_of(r, w, cuda);
  variant_of(p, std::getenv(kLaunch)).launch(0);
  Stream::current(cuda).synchronize();
}

void add_ptx(Look& look) {
  const std::string emulator = emulator_folder();
  if (emulator.empty()) {
    look.no_ptx =
        "there is no emulator beside wt; build trees with a CUDA toolkit have it "
        "(docs/emulator.md)";
    return;
  }
  const confined::CleanEnd clean;
  try {
    launch_emulated(look, emulator);
  } catch (const CheckpointError& e) {  // no folder in TMPDIR
    look.no_ptx = e.what();
  }
}

}  // namespace wt::tools
