// Bytes that come one by one, for a terminal: UTF-8 in whole characters, control characters but
// line feeds and tabs, and what is no UTF-8, as \xNN (printable_lines). A model that learnt from a
// stranger's text may write escape sequences.
#pragma once
#include <string>
#include <utility>

#include "warptape/core/input_file.h"

namespace wt::tools {

class TerminalText {
 public:
  // What can be shown now that `byte` has come.
  std::string take(char byte) {
    std::string shown;
    const bool continues = (byte & 0xC0) == 0x80;
    if (!continues) shown = rest();
    waiting_ += byte;
    if (waiting_.size() >= length(waiting_[0])) shown += rest();
    return shown;
  }
  // What has not been shown yet.
  std::string rest() { return printable_lines(std::exchange(waiting_, {})); }

 private:
  // Of the character that begins with `first`.
  static std::size_t length(char first) {
    const auto b = static_cast<unsigned char>(first);
    return b >= 0xF0 ? 4 : b >= 0xE0 ? 3 : b >= 0xC0 ? 2 : 1;
  }
  std::string waiting_;
};

}  // namespace wt::tools
