// What timed.sh compiles beside a slow file to learn how slow the machine is just then: 0.95 CPU
// seconds where budget.sh's limits were set. It is part of no program and uses nothing of ours, so
// that it costs the same for as long as the compiler is the same.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

int yardstick(std::vector<std::string> words) {
  std::map<std::string, std::function<int(int)>> steps;
  for (const auto& word : words) {
    steps[word] = [length = word.size()](int x) { return static_cast<int>(length) + x; };
  }
  std::sort(words.begin(), words.end());
  int sum = 0;
  for (const auto& [word, step] : steps) sum = step(sum);
  return sum;
}
