#include "warptape/tools/wt/grade/device.h"

#include <cxxabi.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/tools/wt/grade/hints.h"
#include "warptape/tools/wt/grade/lines.h"

namespace wt::grade {
namespace {

namespace fs = std::filesystem;

// The first whose words are in the text.
struct DeviceRule {
  const char *words, *kind, *hint;
};
constexpr DeviceRule kNvccRules[] = {
    {"calling a __host__", "nvcc",
     "what a kernel calls is __device__ or constexpr; functions of the host's libraries are "
     "neither"},
    {"undefined in device code", "nvcc",
     "a kernel sees no variable of the host: make it constexpr, or pass it as an argument"},
    {"exception handling", "nvcc", "a kernel cannot throw: why_not refuses before the launch"},
    {"dynamic initialization", "nvcc",
     "variables of a block or a device begin without a constructor: write to them in the kernel"},
    {"too much shared data", "nvcc",
     "more than 48 KiB is dynamic shared memory: Config::shared_bytes and WT_DYN_SHARED"},
};
constexpr DeviceRule kEmulatedRules[] = {
    {"misaligned address", "misaligned",
     "16 bytes at once need an address that is a multiple of 16: rows of odd length, and views, "
     "begin elsewhere"},
    {"__syncthreads() is missing", "race",
     "put __syncthreads() between the write and the read of other warps, and another one before "
     "the memory is used again"},
    {"nothing orders", "stream", "launch on l.stream, every kernel (grid_of(l, ...) does)"},
    {"host code reads or writes device memory", "host",
     "what is to be done with elements has to be done in a kernel"},
    {"member mask", "warp", "the mask names the lanes that call: 0xffffffff only where all do"},
    {"wait for each other for ever", "deadlock",
     "somebody waits for threads that never come: is the barrier, or the shuffle, in a branch or "
     "in a loop that only some of them are in?"},
    {"barrier not met", "barrier",
     "all threads of a block have to come to the same __syncthreads(): move it out of the branch"},
    {"illegal address", "outside",
     "the index is beyond the operand: the grid is rounded up, so each thread has to test its own "
     "index against the size"},
    {"which was freed", "outside", "it belongs to an earlier launch: every launch gets its own"},
    {"assertion failed", "kernel",
     "an assert() or a trap of the kernel's own: its line says which"},
    {"limit in kernel", "launch", "a block has at most 1024 threads and 227 KiB of shared memory"},
};

template <size_t N>
void ruled(Finding& f, const DeviceRule (&rules)[N], const std::string& text) {
  for (const DeviceRule& r : rules)
    if (text.find(r.words) != text.npos) {
      f.kind = r.kind, f.hint = r.hint;
      return;
    }
}

// nvcc's front end writes file(12), the host's compiler file:12.
int nvcc_line(const std::string& text, const std::string& own) {
  const std::string name = fs::path(own).filename().string();
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const size_t next = at + name.size();
    if (next >= text.size() || (text[next] != '(' && text[next] != ':')) continue;
    if (const int line = std::atoi(text.c_str() + next + 1); line > 0) return line;
  }
  return 0;
}

std::string demangled_kernel(const std::string& name) {
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr), std::free);
  return text ? text.get() : name;
}

void erase_all(std::string& text, const std::string& words) {
  for (size_t at = text.find(words); at != text.npos; at = text.find(words, at))
    text.erase(at, words.size());
}

// "      12  cuda:0  stream 1    3.00 us  kernel<<<2  64>>>": the kernel, or nothing.
std::string traced_kernel(const std::string& line) {
  const size_t digit = line.find_first_not_of(' ');
  if (digit == line.npos || !std::isdigit(static_cast<unsigned char>(line[digit]))) return "";
  const size_t device = line.find("  cuda:"), unit = line.find(" us  "), grid = line.find("<<<");
  if (device == line.npos || unit == line.npos || grid == line.npos || grid < unit) return "";
  return kernel_label(line.substr(unit + 5, grid - unit - 5));
}

}  // namespace

Finding of_nvcc(const Compiled& c, const std::string& file) {
  if (!c.borrowed.empty() || !c.reach.empty() || c.late) {
    Finding f = of_compiler(c, file);
    f.sentence += "; of nvcc's, not of the host's compiler";
    return f;
  }
  Finding f{.kind = "nvcc", .file = file};
  f.hint =
      "nvcc compiles the file for the GPU: kernels and what they call are device code, C++ of the "
      "host belongs into launch functions";
  std::istringstream lines(c.output);
  std::string rest;
  for (std::string line; std::getline(lines, line);) {
    if (f.sentence.empty())
      for (const char* const mark : {" error: ", " error #", "ptxas error", "ptxas fatal",
                                     "undefined reference", "multiple definition"})
        if (const size_t at = line.find(mark); at != line.npos && f.sentence.empty()) {
          f.sentence = "nvcc refuses it: " + line.substr(line[at] == ' ' ? at + 1 : at);
          for (const char* const words : {"_NV_ANON_NAMESPACE::", "wt::cuda::"})
            erase_all(f.sentence, words);
          ruled(f, kNvccRules, line);
        }
    if (!f.sentence.empty()) rest += line + "\n";  // an error in a header names the file later
  }
  f.line = nvcc_line(rest, file);
  if (f.sentence.empty()) f.sentence = "nvcc failed: " + c.output.substr(0, c.output.find('\n'));
  return f;
}

std::string kernel_label(const std::string& demangled) {
  std::string text = demangled;
  // Its arguments, and not a template's: the bracket that closes last.
  if (text.ends_with(")")) {
    int depth = 0;
    for (size_t i = text.size(); i-- > 0;) {
      depth += text[i] == ')' ? 1 : text[i] == '(' ? -1 : 0;
      if (depth == 0) {
        text.resize(i);
        break;
      }
    }
  }
  for (const char* const words : {"(anonymous namespace)::", "wt::cuda::", "wt::"})
    erase_all(text, words);
  if (text.starts_with("void ")) text.erase(0, 5);
  return text;
}

std::vector<DeviceKernel> ptxas_kernels(const std::string& output) {
  std::vector<DeviceKernel> all;
  std::string entry, of;  // mangled: the kernel that is compiled, and whose properties come next
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (const size_t at = line.find("Compiling entry function '"); at != line.npos) {
      const size_t name = at + 26;
      entry = line.substr(name, line.find('\'', name) - name);
      all.push_back({.name = kernel_label(demangled_kernel(entry))});
    } else if (const size_t p = line.find("Function properties for "); p != line.npos) {
      of = line.substr(p + 24);
    } else if (!all.empty() && of == entry && line.find("bytes stack frame") != line.npos) {
      DeviceKernel& k = all.back();
      std::sscanf(line.c_str(), " %d bytes stack frame, %d bytes spill stores, %d bytes spill",
                  &k.stack, &k.spill_stores, &k.spill_loads);
    } else if (const size_t u = line.find("Used "); u != line.npos && !all.empty()) {
      all.back().registers = std::atoi(line.c_str() + u + 5);
      if (const size_t smem = line.find(" bytes smem"); smem != line.npos)
        all.back().shared = std::atoi(line.c_str() + line.rfind(' ', smem - 1) + 1);
    }
  }
  return all;
}

Emulated emulated(const std::string& output) {
  Emulated e;
  std::istringstream lines(output);
  bool within = false;
  for (std::string line; std::getline(lines, line);) {
    if (const std::string kernel = traced_kernel(line); !kernel.empty()) {
      e.kernels.insert(kernel);
    } else if (line.starts_with("emulator: note: ")) {
      e.notes.push_back(line.substr(16));
      within = false;
    } else if (line.starts_with("emulator: ")) {
      // The last line of a run counts them.
      within = line.find(" findings, ") == line.npos;
      if (within) e.findings.push_back(line.substr(10));
    } else if (within && line.starts_with(" ")) {
      e.findings.back() += "\n" + line;
    } else {
      within = false;
    }
  }
  return e;
}

Finding of_emulated(const std::string& finding, const std::string& own) {
  Finding f{.kind = "device", .file = own, .line = first_line(finding, own)};
  f.hint = "docs/emulator.md says what the emulated device reports";
  ruled(f, kEmulatedRules, finding);
  std::string head = finding.substr(0, finding.find('\n'));
  std::string where = "on the emulated device";
  if (const size_t at = head.find(" in kernel "); at != head.npos) {
    std::string kernel = head.substr(at + 11);
    kernel = kernel.substr(0, kernel.rfind(", PTX line"));
    where += ", in " + kernel_label(kernel);
    head.resize(at);
  }
  std::string what;
  if (const size_t next = finding.find('\n'); next != finding.npos) {
    const size_t begin = finding.find_first_not_of(' ', next + 1);
    if (begin != finding.npos) what = finding.substr(begin, finding.find('\n', begin) - begin);
  }
  f.sentence = str(where, ": ", head, what.empty() ? "" : ": ", what);
  return f;
}

bool not_emulated(const std::string& text) {
  for (const char* const words : {"the emulator does not know", "is not emulated",
                                  "the emulated device has no TMA", "the emulator runs PTX only"})
    if (text.find(words) != text.npos) return true;
  return false;
}

}  // namespace wt::grade
