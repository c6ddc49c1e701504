// The program that a student's file and a lab's cases become:
//   PROGRAM --list                           a JSON line a case
//   PROGRAM --case N --seed S [--key WORD]   runs one; its last line is JSON; exit code 0 or 1
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "warptape/core/files/json.h"
#include "warptape/labs/support/cases.h"

namespace {

const char* value_of(int count, char** arguments, const char* option, const char* otherwise) {
  for (int i = 1; i + 1 < count; ++i)
    if (std::strcmp(arguments[i], option) == 0) return arguments[i + 1];
  return otherwise;
}

int list() {
  int number = 0;
  std::puts("");  // what a file has printed before main may lack a line's end
  for (const wt::lab::Case& c : wt::lab::cases()) {
    wt::JsonObject line;
    line.add("lab_case", number++).add("name", c.name).add("points", c.points);
    line.add("challenge", c.points == 0);
    std::printf("%s\n", line.str().c_str());
  }
  return std::fflush(stdout) ? 1 : 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::strcmp(arguments[1], "--list") == 0) return list();
  const char* const number = value_of(count, arguments, "--case", nullptr);
  const char* const seed = value_of(count, arguments, "--seed", nullptr);
  const char* const key = value_of(count, arguments, "--key", "");
  const int n = number ? std::atoi(number) : -1;
  if (!seed || n < 0 || size_t(n) >= wt::lab::cases().size()) {
    std::fputs("usage: --list, or --case N --seed S [--key WORD]\n", stderr);
    return 2;
  }
  return wt::lab::run_case(wt::lab::cases()[size_t(n)], n, std::strtoull(seed, nullptr, 10), key);
}
