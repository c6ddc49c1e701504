#include "warptape/kernels/jit/compile.h"

#include <string_view>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/core/str.h"
#include "warptape/core/suggest.h"
#include "warptape/kernels/jit/nvrtc.h"

namespace wt::jit {
namespace {

std::string title(const KernelSource& s) { return str("[kernel ", printable(s.name), "] "); }

const Nvrtc& needed_nvrtc(const char* title) {
  const NvrtcFound& found = nvrtc();
  if (!found.api)
    throw NotAvailable(
        str(title, "kernels are compiled by NVRTC: ", found.why_not,
            "\n  Try installing it; it is looked for in LD_LIBRARY_PATH, $CUDA_HOME, "
            "$CUDA_PATH, /usr/local/cuda and the wheels of $VIRTUAL_ENV"));
  return *found.api;
}

class Program {
 public:
  Program(const Nvrtc& api, const KernelSource& s) : api_(api) {
    // The name that the log's lines begin with.
    check(api.create(&p_, s.text.c_str(), "kernel.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
  }
  ~Program() {
    if (p_) api_.destroy(&p_);
  }
  Program(const Program&) = delete;

  int add_name(const KernelSource& s) { return api_.add_name(p_, s.name.c_str()); }
  int compile(const KernelSource& s, const std::string& arch) {
    const std::string target = "--gpu-architecture=" + arch;
    std::vector<const char*> options{target.c_str()};
    for (const std::string& o : s.options) options.push_back(o.c_str());
    return api_.compile(p_, int(options.size()), options.data());
  }
  std::string log() const { return taken(api_.log_size, api_.log, "nvrtcGetProgramLog"); }
  // With its end, by which PTX is told from what follows.
  std::string code(bool ptx) const {
    return ptx ? taken(api_.ptx_size, api_.ptx, "nvrtcGetPTX")
               : taken(api_.cubin_size, api_.cubin, "nvrtcGetCUBIN");
  }
  std::string lowered(const KernelSource& s) const {
    const char* name = nullptr;
    check(api_.lowered_name(p_, s.name.c_str(), &name), "nvrtcGetLoweredName");
    return name;
  }

 private:
  void check(int code, const char* call) const {
    if (code != kNvrtcSuccess)
      throw NotAvailable(str(api_.file, ": ", call, ": ", api_.error_text(code)));
  }
  template <class Size, class Take>
  std::string taken(Size size, Take take, const char* call) const {
    size_t bytes = 0;
    check(size(p_, &bytes), call);
    std::string text(bytes, '\0');
    if (bytes) check(take(p_, text.data()), call);
    return text;
  }

  const Nvrtc& api_;
  void* p_ = nullptr;
};

std::string without_end(std::string text) {
  while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
  return text;
}

// Names behind ".entry" in PTX.
std::vector<std::string> entries_of(const std::string& ptx) {
  std::vector<std::string> names;
  constexpr std::string_view kWord = ".entry ";
  for (size_t at = ptx.find(kWord); at != std::string::npos; at = ptx.find(kWord, at)) {
    at += kWord.size();
    const size_t end = std::min(ptx.find_first_of("( \t\n", at), ptx.size());
    names.push_back(ptx.substr(at, end - at));
  }
  return names;
}

// Of a compilation that failed: the name may be all that is wrong.
[[noreturn]] void throw_failed(const Nvrtc& api, const KernelSource& s, const std::string& arch,
                               int code, const std::string& log) {
  if (code == kNvrtcInvalidOption) {
    std::string options = arch;
    for (const std::string& o : s.options) options += " " + o;
    throw UsageError(str(title(s), "NVRTC ", api.version_text, " does not take these options: ",
                         printable_lines(options), "\n", printable_lines(without_end(log))));
  }
  Program nameless(api, s);
  if (nameless.compile(s, ptx_arch(arch)) == kNvrtcSuccess) {
    const std::vector<std::string> names = entries_of(nameless.code(true));
    std::string list;
    for (const std::string& n : names) list += (list.empty() ? "" : ", ") + printable(n);
    throw UsageError(str(title(s), "the source has no such kernel",
                         list.empty() ? "; it has none that is not a template" : "; it has " + list,
                         did_you_mean(s.name, names)));
  }
  throw UsageError(str(title(s), "the source does not compile (NVRTC ", api.version_text, ", ",
                       arch, "): ", api.error_text(code), "\n",
                       printable_lines(without_end(nameless.log()))));
}

}  // namespace

std::string ptx_arch(const std::string& arch) {
  return arch.starts_with("sm_") ? "compute_" + arch.substr(3) : arch;
}

std::string arch_for(int major, int minor) {
  const Nvrtc& api = needed_nvrtc("[kernel] ");
  const int wanted = major * 10 + minor;
  int best = 0;
  for (const int t : api.targets)
    if (t <= wanted) best = t;
  if (best == wanted) return str("sm_", best);
  if (best == 0)
    throw NotAvailable(str("[kernel] NVRTC ", api.version_text, " compiles for compute capability ",
                           api.targets.front() / 10, ".", api.targets.front() % 10,
                           " and up; the device has ", major, ".", minor,
                           "\n  Try an older one: WT_NVRTC=FILE"));
  return str("compute_", best);
}

KernelCode compile(const KernelSource& s, const std::string& arch) {
  const Nvrtc& api = needed_nvrtc(title(s).c_str());
  Program program(api, s);
  if (const int code = program.add_name(s); code != kNvrtcSuccess)
    throw UsageError(str(title(s), "NVRTC does not take this name: ", api.error_text(code)));
  if (const int code = program.compile(s, arch); code != kNvrtcSuccess)
    throw_failed(api, s, arch, code, program.log());
  return {program.lowered(s), program.code(is_ptx_arch(arch))};
}

}  // namespace wt::jit
