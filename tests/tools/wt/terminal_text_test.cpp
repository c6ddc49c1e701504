#include "warptape/tools/wt/reports/terminal_text.h"

#include "warptape/tests/support/catch.h"

using wt::tools::TerminalText;

namespace {

std::string shown(const std::string& bytes) {
  TerminalText text;
  std::string all;
  for (const char byte : bytes) all += text.take(byte);
  return all + text.rest();
}

}  // namespace

TEST_CASE("terminal text: what a model writes is shown, not obeyed") {
  CHECK(shown("a line\n\tand another") == "a line\n\tand another");
  CHECK(shown("caf\u00e9 \u20ac \U0001F600") == "caf\u00e9 \u20ac \U0001F600");
  CHECK(shown("\x1b]0;title\x07\r") == "\\x1b]0;title\\x07\\x0d");
  CHECK(shown("\302\23331m") == "\\xc2\\x9b31m");  // CSI of two bytes
  CHECK(shown("\342\202x\200") == "\\xe2\\x82x\\x80");
  CHECK(shown("end\xf0\x9f") == "end\\xf0\\x9f");
}

TEST_CASE("terminal text: a character is shown when it is whole") {
  TerminalText text;
  CHECK(text.take('a') == "a");
  CHECK(text.take('\xc3') == "");
  CHECK(text.take('\xa9') == "\u00e9");
  CHECK(text.rest() == "");
}
