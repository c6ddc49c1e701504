#pragma once
#include <span>
#include <string>
#include <vector>

namespace wt::tools {

// What the operator tests proved of an operator; they write tools/op_facts.inc and compare it.
struct OpFacts {
  const char *name, *dtypes;
  int derivatives, cases;
  const char* contracts;  // forward first
  // What has kernels on simt, of values and gradients: "all", "part" or "none"; cuda has the same
  // sources. Where it is part: what is lacking, "; " between.
  const char *on_simt, *lacking;
  // For a backward of all operands: "operand 0, its result", "nothing", "as its parts" of operators
  // made of others, "-" of those without a gradient. "its own": statistics, a mask.
  const char* held;
};
std::span<const OpFacts> op_facts();

// "a b" as two.
std::vector<std::string> words(const char* text);
std::vector<std::string> contracts_of_operator(const std::string& name);  // none: no such operator

}  // namespace wt::tools
