#include "warptape/tools/wt/grade/symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/confined/process.h"

namespace wt::grade {
namespace {

namespace fs = std::filesystem;

// With these a launch function could answer in the runner's place, open device memory to the host,
// or look for what it may not name.
constexpr const char* kTheRunners[] = {
    "read",     "write",    "pread",  "pwrite",  "pread64",   "pwrite64", "readv",
    "writev",   "syscall",  "dup",    "dup2",    "dup3",      "fcntl",    "fcntl64",
    "fdopen",   "dprintf",  "mmap",   "mmap64",  "vdprintf",  "munmap",   "mremap",
    "mprotect", "madvise",  "dlopen", "dlsym",   "sigaction", "dlvsym",   "pkey_mprotect",
    "prctl",    "vmsplice", "splice", "sendfile"};
// Prefixes of the readable name.
constexpr const char* kInternals[] = {"wt::simt_", "wt::Simt",
                                      "wt::grade::", "std::__basic_file<char>::sys_open"};

std::string readable(const std::string& symbol) {
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr), std::free);
  return name ? name.get() : symbol;
}

bool is_internal(const std::string& symbol) {
  for (const char* const name : kTheRunners)
    if (symbol == name) return true;
  const std::string name = readable(symbol);
  for (const char* const prefix : kInternals)
    if (name.starts_with(prefix)) return true;
  return false;
}

// Whether somebody else in the program calls this name and would get the student's.
bool overrides(const std::string& symbol, char type) {
  for (const char* const prefix : {"_Znw", "_Zna", "_Zdl", "_Zda"})
    if (symbol.starts_with(prefix)) return true;
  const bool cplusplus = symbol.starts_with("_Z");
  // Instances of the library's templates are weak, and the same everywhere.
  if (cplusplus && type != 'T' && type != 'D' && type != 'B' && type != 'R') return false;
  return ::dlsym(RTLD_DEFAULT, symbol.c_str()) != nullptr;
}

}  // namespace

std::string reach_of(const std::string& object) {
  const char* const path = std::getenv("PATH");
  confined::Process::Start start{
      .command = {"/usr/bin/env", "nm", "-g", "-P", object},
      .environment = {"LC_ALL=C", std::string("PATH=") + (path ? path : "")},
      .folder = fs::path(object).parent_path().string()};
  start.limits.file_bytes = i64{64} << 20;
  confined::Process nm(start);
  const confined::Ended end = nm.wait(confined::Clock::now() + std::chrono::seconds(60));
  if (end.how != confined::Ended::How::exited || end.code != 0)
    throw NotAvailable("wt grade looks into object files with nm of the binutils, and it " +
                       (end.code == 127 ? std::string("is not there") : "failed: " + nm.output()));
  std::istringstream in(nm.output());
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string symbol, type;
    words >> symbol >> type;
    if (type.size() != 1) continue;
    const bool defined = type[0] != 'U' && type[0] != 'w' && type[0] != 'v';
    if (defined && overrides(symbol, type[0]))
      return str("it defines ", printable(readable(symbol)), ", which others in the program call");
    if (!defined && is_internal(symbol))
      return str("it calls ", printable(readable(symbol)), ", which is for the runner to do");
  }
  return "";
}

}  // namespace wt::grade
