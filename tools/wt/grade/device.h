// What nvcc, ptxas and the emulated device say: their text as findings and facts. Internal.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "warptape/tools/wt/grade/compile.h"
#include "warptape/tools/wt/grade/verdict.h"

namespace wt::grade {

// Why nvcc made nothing of a file that is right on simt: its first error.
Finding of_nvcc(const Compiled& c, const std::string& file);

// "softmax<64>" of "void wt::cuda::(anonymous namespace)::softmax<64>(float*, int)".
std::string kernel_label(const std::string& demangled);
// All kernels of the file, of what `ptxas -v` says.
std::vector<DeviceKernel> ptxas_kernels(const std::string& output);

// What a session on the emulated device has printed, taken apart.
struct Emulated {
  std::vector<std::string> findings;  // with what is told below each
  std::vector<std::string> notes;     // why a call was refused
  std::set<std::string> kernels;      // labels of those that ran; of a session with `trace`
};
Emulated emulated(const std::string& output);
Finding of_emulated(const std::string& finding, const std::string& own);
// Whether a text says that the emulator, not the kernel, comes to its end here.
bool not_emulated(const std::string& text);

}  // namespace wt::grade
