// From the text of a kernel to code for a GPU, by NVRTC. Internal.
#pragma once
#include <string>
#include <vector>

namespace wt::jit {

struct KernelSource {
  std::string text, name;  // CUDA C++; "scale" or, of a template, "scale<float>"
  std::vector<std::string> options;
};
struct KernelCode {
  std::string entry;  // the kernel's name in the code
  std::string code;   // machine code, or PTX
};

// "sm_90" for a device of this capability: machine code; "compute_90" where NVRTC is older than the
// device and knows no more. Throws NotAvailable for one that NVRTC compiles for no longer, and
// where there is no NVRTC.
std::string arch_for(int major, int minor);
// "compute_90" of "sm_90".
std::string ptx_arch(const std::string& arch);
inline bool is_ptx_arch(const std::string& arch) { return arch.starts_with("compute_"); }

// Throws UsageError with NVRTC's log, whose lines are those of the text, for what does not compile,
// for a kernel that the text does not have and for options and an arch that NVRTC does not know;
// NotAvailable where there is no NVRTC. Costs 10 to 500 ms of one thread.
KernelCode compile(const KernelSource& source, const std::string& arch);

}  // namespace wt::jit
