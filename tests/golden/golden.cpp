#include "warptape/tests/golden/golden.h"

#include <cstdlib>
#include <regex>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/catch.h"

namespace golden {
namespace {

std::string blotted(std::string text, const TempDir& dir) {
  for (size_t at; (at = text.find(dir.path)) != std::string::npos;)
    text.replace(at, dir.path.size(), "DIR");
  return std::regex_replace(text, std::regex(R"re((\.(cpp|h)):\d+)re"), "$1:LINE");
}

std::string message(const Example& example) {
  const TempDir dir;
  std::string text = "nothing was thrown";
  try {
    example.make(dir);
  } catch (const wt::Error& error) {
    text = error.what();
  }
  wt::memory::fail_nth_request(0);
  return blotted(text, dir);
}

// One hint at most: OpScope::fail() writes the word itself.
bool has_two_hints(const std::string& text) {
  const size_t first = text.find("Try ");
  return first != text.npos && text.find("Try ", first + 1) != text.npos;
}

}  // namespace

void compare(const std::string& name, std::initializer_list<const Examples*> lists) {
  std::ostringstream out;
  for (const Examples* list : lists)
    for (const Example& e : *list) {
      const std::string text = message(e);
      INFO(text);
      CHECK_FALSE(has_two_hints(text));
      out << "== " << e.title << "\n" << text << "\n\n";
    }
  const std::string now = out.str(), file = WT_SOURCE_DIR "/tests/golden/" + name;
  if (std::getenv("WT_WRITE_GOLDEN")) spit(file, now);
  // Section by section: a difference shows one message, not all.
  std::istringstream is(now), was(slurp(file));
  std::string a, b, title;
  while (true) {
    const bool more = bool(std::getline(is, a)), expected = bool(std::getline(was, b));
    INFO("run wt_tests 'golden*' with WT_WRITE_GOLDEN=1 and read the difference\n  " << title);
    REQUIRE(more == expected);
    if (!more) break;
    if (a.starts_with("== ")) title = a;
    REQUIRE(a == b);
  }
  CHECK(now.find("nothing was thrown") == std::string::npos);
}

}  // namespace golden
