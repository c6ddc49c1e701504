#include "warptape/tools/wt/measure/op_facts.h"

#include <sstream>

namespace wt::tools {
namespace {

constexpr OpFacts kFacts[] = {
#include "warptape/tools/op_facts.inc"
};

}  // namespace

std::span<const OpFacts> op_facts() { return kFacts; }

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> r;
  for (std::string word; in >> word;) r.push_back(word);
  return r;
}

std::vector<std::string> contracts_of_operator(const std::string& name) {
  for (const OpFacts& f : kFacts)
    if (name == f.name) return words(f.contracts);
  return {};
}

}  // namespace wt::tools
