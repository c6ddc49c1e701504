// wt profile --ncu OP: how NVIDIA's Nsight Compute looks at the kernels of one operator.
#pragma once
#include <string>

#include "warptape/core/types.h"

namespace wt::tools {

struct NcuOptions {
  std::string program = "./program";  // with its arguments, as a shell reads them
  i64 skip = 10, count = 5;           // launches of these kernels: left out first, then looked at
};

// The command line. `op` is an operator ("softmax"), its backward ("softmax.backward"), a contract
// ("softmax_forward"), a variant ("softmax_forward:warp": the program is made to take it) or what a
// profile or a trace calls one: "conv2.linear.backward <- net.cpp:57". UsageError with the near
// names for what is neither, and for operators that launch nothing (views).
std::string ncu_command(const std::string& op, const NcuOptions& options = {});

// What the names of a contract's kernels on cuda match, as ncu prints them: demangled. Empty: it
// has none there.
std::string kernel_regex(const std::string& contract);

// In quotes, if a shell would take it for more than a word.
std::string shell_word(const std::string& text);

}  // namespace wt::tools
