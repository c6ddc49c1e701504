// What tests of loaders ask of them.
#pragma once
#include <cctype>
#include <string>
#include <vector>

#include "warptape/core/tensor.h"
#include "warptape/tests/support/catch.h"

namespace wt_test {

// `text` without ", worker 2", which is there if there are workers and names one of them.
inline std::string without_worker(std::string text, int workers) {
  const std::string word = ", worker ";
  const size_t at = text.find(word);
  CHECK((at != text.npos) == (workers > 0));
  if (at == text.npos) return text;
  size_t end = at + word.size();
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
  CHECK(std::stoi(text.substr(at + word.size())) < workers);
  return text.erase(at, end - at);
}

// The y of what is left of an epoch.
template <class L>
std::vector<wt::i64> targets_of(L& loader) {
  std::vector<wt::i64> seen;
  for (auto& [x, y] : loader)
    for (const wt::i64 v : y.template to_vector<wt::i64>()) seen.push_back(v);
  return seen;
}

}  // namespace wt_test
