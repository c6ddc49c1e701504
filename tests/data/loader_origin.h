// What an error of a loader says of the worker that met it.
#pragma once
#include <cctype>
#include <string>

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

}  // namespace wt_test
