#include "warptape/tools/wt/grade/compile.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/grade/symbols.h"

namespace wt::grade {
namespace {

namespace fs = std::filesystem;

constexpr i64 kGiB = i64{1} << 30;

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What a compiler needs of the environment; its language decides what it says. Its own files lie
// with what it makes: where it is ended it leaves them.
std::vector<std::string> environment(const std::string& folder) {
  std::vector<std::string> all{"LC_ALL=C", "TMPDIR=" + folder};
  for (const char* const name : {"PATH", "HOME", "CCACHE_DIR"})
    if (const char* const value = std::getenv(name)) all.push_back(str(name, "=", value));
  return all;
}

// The compiler's full path: no shell looks for it.
std::string found_compiler(const Support& s) {
  const char* const named = std::getenv("CXX");
  const std::string name = named && *named ? named : s.compiler;
  if (name.find('/') != name.npos) {
    if (::access(name.c_str(), X_OK) == 0) return name;
  } else if (const char* const path = std::getenv("PATH")) {
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');)
      if (const std::string file = folder + "/" + name; ::access(file.c_str(), X_OK) == 0)
        return file;
  }
  throw NotAvailable(str("wt grade needs a C++20 compiler, and ", printable_path(name),
                         " is not there; CXX names another one"));
}

// The rule that -MD writes: the files that were read.
std::vector<std::string> included(const std::string& rule) {
  std::vector<std::string> files(1);
  for (size_t i = 0; i < rule.size(); ++i) {
    if (rule[i] == '$' && i + 1 < rule.size() && rule[i + 1] == '$') {
      files.back() += rule[++i];
    } else if (rule[i] == '\\' && i + 1 < rule.size()) {
      if (rule[++i] != '\n') files.back() += rule[i];
    } else if (rule[i] == ' ' || rule[i] == '\n') {
      files.emplace_back();
    } else {
      files.back() += rule[i];
    }
  }
  return files;
}

// What a launch could be made of in a line: another kernel file, or kernels in a header of
// warptape's that is not for everybody.
bool has_kernels(const std::string& file) {
  if (file.ends_with(".cu")) return true;
  return file.ends_with(".cuh") && file.find("warptape/kernels/") != file.npos &&
         file.find("warptape/kernels/device/") == file.npos;
}

// A file with kernels among them that is not the student's own: the operator's solution lies in
// one. `made`: what the grader wrote itself.
std::string borrowed(const std::string& rule, const std::string& own, const std::string& made) {
  std::error_code error;
  for (const std::string& file : included(rule))
    if (has_kernels(file) && file != made && !fs::equivalent(file, own, error)) return file;
  return "";
}

bool no_room(const std::string& output) {
  for (const char* const said : {"No space left on device", "Disk quota exceeded", "File too large",
                                 "File size limit exceeded"})
    if (output.find(said) != output.npos) return true;
  return false;
}

void add(std::vector<std::string>& to, const std::vector<std::string>& list) {
  to.insert(to.end(), list.begin(), list.end());
}

std::vector<std::string> compiler_words(const Support& s, Flavour flavour) {
  std::vector<std::string> words{found_compiler(s)};
  add(words, s.options), add(words, s.flavour_options.at(flavour));
  for (const std::string& i : s.includes) words.push_back("-I" + i);
  return words;
}

// Commands of a compiler, with limits. Nothing of the student's runs here: a machine that is busy
// may take its time.
class Runs {
 public:
  Runs(const std::string& folder, double seconds, Compiled& result)
      : folder_(folder),
        seconds_(seconds),
        result_(result),
        deadline_(confined::Clock::now() + std::chrono::milliseconds(i64(seconds * 10'000))) {}

  // Whether it did what it should; its words are the result's output.
  bool operator()(std::vector<std::string> command) const {
    confined::Process::Start start{
        .command = std::move(command), .environment = environment(folder_), .folder = folder_};
    start.limits = {
        .cpu_seconds = seconds_, .memory = 4 * kGiB, .address_space = 8 * kGiB, .file_bytes = kGiB};
    confined::Process compiler(start);
    const confined::Ended end = compiler.wait(deadline_);
    result_.output = compiler.output();
    result_.late = end.how == confined::Ended::How::late ||
                   result_.output.find("CPU time limit exceeded") != std::string::npos;
    if (end.how == confined::Ended::How::exited && end.code == 0) return true;
    if (no_room(result_.output))
      throw CheckpointError(str("wt grade compiles in ", printable_path(folder_),
                                ", where there is no room: TMPDIR or --keep names another folder"));
    return false;
  }

 private:
  const std::string& folder_;
  double seconds_;
  Compiled& result_;
  confined::Clock::time_point deadline_;
};

void link(const Support& s, Flavour flavour, const std::string& compiler,
          const std::string& program, const Runs& run, Compiled& result) {
  std::vector<std::string> link{compiler};
  add(link, s.link_options.at(flavour));
  add(link, {"-o", program, program + ".o"});
  if (flavour == Flavour::race) add(link, s.race);
  add(link, flavour == Flavour::nvcc ? s.cuda : s.libraries);
  const std::string warnings = result.output;
  if (!run(std::move(link))) {
    // A compiler without its sanitizer's library links no program at all.
    if (flavour == Flavour::asan) {
      Compiled failed = result;
      write_file_atomically(program + ".empty.cpp", "int main() {}\n");
      std::vector<std::string> empty{compiler};
      add(empty, s.link_options.at(flavour));
      add(empty, {"-o", program + ".empty", program + ".empty.cpp"});
      failed.absent = !run(std::move(empty));
      result = std::move(failed);
    }
    return;
  }
  result.output = warnings;
  result.program = program;
}

// Why nothing can be compiled for the emulated device; empty: it can.
std::string no_nvcc(const Support& s) {
  if (s.nvcc.empty()) return "this wt has no emulated device (docs/emulator.md)";
  if (::access(s.nvcc.c_str(), X_OK) != 0) return printable_path(s.nvcc) + " is not there";
  std::error_code error;
  for (const std::string& file : s.cuda)
    if (file[0] != '-' && !fs::exists(file, error)) return printable_path(file) + " is not there";
  return "";
}

// Through a file of the grader's: nvcc hands names to a shell, and the student's may be any.
Compiled compile_nvcc(const Support& s, const std::string& file, const std::string& folder,
                      double seconds) {
  Compiled result;
  if (!(result.output = no_nvcc(s)).empty()) {
    result.absent = true;
    return result;
  }
  const std::string program = folder + "/kernel.nvcc", made = program + ".cu";
  write_file_atomically(made, str("#include \"", fs::absolute(file).string(), "\"\n"));
  const Runs run(folder, seconds, result);
  std::vector<std::string> compile{s.nvcc};
  add(compile, s.flavour_options.at(Flavour::nvcc));
  for (const std::string& i : s.includes) add(compile, {"-I", i});
  add(compile, {"-MD", "-MF", program + ".d", "-c", "-o", program + ".o", made});
  if (!run(std::move(compile))) return result;
  if (!(result.borrowed = borrowed(text_of(program + ".d"), file, made)).empty()) return result;
  if (!(result.reach = reach_of(program + ".o")).empty()) return result;
  link(s, Flavour::nvcc, found_compiler(s), program, run, result);
  return result;
}

}  // namespace

Compiled compile_kernel(const Support& s, const std::string& file, const std::string& folder,
                        Flavour flavour, double seconds) {
  if (flavour == Flavour::nvcc) return compile_nvcc(s, file, folder, seconds);
  Compiled result;
  if (flavour == Flavour::race && s.race.empty()) {
    result.absent = true;
    return result;
  }
  const std::string program = folder + "/kernel." + flavour_name(flavour);
  const std::string object = program + ".o", rule = program + ".d";
  const Runs run(folder, seconds, result);
  std::vector<std::string> compile = compiler_words(s, flavour);
  const std::string compiler = compile[0];
  add(compile, {"-MD", "-MF", rule, "-c", "-o", object, "-x", "c++", fs::absolute(file).string()});
  if (!run(std::move(compile))) return result;
  result.borrowed = borrowed(text_of(rule), file, "");
  if (!result.borrowed.empty()) return result;
  if (flavour == Flavour::plain && !(result.reach = reach_of(object)).empty()) return result;
  link(s, flavour, compiler, program, run, result);
  return result;
}

Compiled compile_shared(const Support& s, const std::string& file, const std::string& folder,
                        const std::string& stamp, double seconds) {
  Compiled result;
  const std::string program = folder + "/kernel.so", stamped = folder + "/stamp.cpp";
  write_file_atomically(
      stamped, str("extern \"C\" const char wt_kernel_file_of[] = ", json_quote(stamp), ";\n"));
  std::vector<std::string> compile = compiler_words(s, Flavour::plain);
  // The index variables are the program's, at an offset that is known when it is loaded.
  add(compile, {"-fPIC", "-shared", "-ftls-model=initial-exec", "-o", program, "-x", "c++",
                fs::absolute(file).string(), stamped});
  if (Runs(folder, seconds, result)(std::move(compile))) result.program = program;
  return result;
}

}  // namespace wt::grade
