// Device functions by name, and what launches them.
#pragma once
#include <string>
#include <vector>

namespace wt::tools {

struct KernelLaunch {
  std::string function;           // "softmax_block"
  std::string contract, variant;  // that launch it,
  std::string dtype, shape;       // with these operands of the benchmark
};

// "softmax_block" of "wt::softmax_block<float, 256> [softmax]", as reports have it.
std::string function_of(const std::string& title);
// "f32" of "softmax_block<float, 256>"; "" where it does not say.
std::string dtype_of_title(const std::string& title);
// Some launches of it, the first one that somebody would mean; none: no kernel is called so.
// Template arguments choose among the contracts and dtypes that share a function.
std::vector<KernelLaunch> launches_of(const std::string& title);
std::vector<std::string> function_names();

}  // namespace wt::tools
