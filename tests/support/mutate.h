// Damaged variants of a file for tests of readers: what a fuzzer's first minutes try.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

inline std::string mutated(std::string text, std::mt19937_64& random,
                           const std::vector<std::string_view>& dictionary) {
  const auto pick = [&](std::size_t n) {
    return n == 0 ? 0 : static_cast<std::size_t>(random() % n);
  };
  for (std::size_t edits = 1 + pick(4); edits > 0; --edits) {
    const std::size_t at = pick(text.size() + 1), length = std::min(pick(12), text.size() - at);
    switch (pick(6)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(pick(text.size() + 1), length));
        break;
      case 2:
        text.insert(at, dictionary[pick(dictionary.size())]);
        break;
      case 3:
        text.replace(at, length, dictionary[pick(dictionary.size())]);
        break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      default:
        if (at < text.size()) text[at] ^= static_cast<char>(1 << pick(8));
    }
  }
  return text;
}

// How many files a test damages, and from which seed. tools/fuzz.sh asks for more than CI does.
struct FuzzPlan {
  long long cases;
  std::mt19937_64 random;
  FuzzPlan(long long usual, unsigned long long seed) : cases(usual), random(seed) {
    if (const char* c = std::getenv("WT_FUZZ_CASES")) cases = std::atoll(c);
    if (const char* more = std::getenv("WT_FUZZ_SEED"))
      random.seed(seed + std::strtoull(more, nullptr, 10));
  }
};

// How many damaged variants of these files, by turns, `takes` says were read; it throws or fails
// the test for what must not be.
template <class F>
long long taken_of(FuzzPlan plan, const std::vector<std::string>& golden,
                   const std::vector<std::string_view>& words, F takes) {
  long long taken = 0;
  for (long long i = 0; i < plan.cases; ++i)
    taken +=
        takes(mutated(golden[static_cast<std::size_t>(i) % golden.size()], plan.random, words));
  return taken;
}
