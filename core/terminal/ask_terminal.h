// What a terminal says of itself. Internal.
#pragma once
#include "warptape/core/macros.h"

namespace wt::detail {

struct TerminalAnswer {
  bool asked = false;  // false: it may answer another time
  bool answered = false;
  bool sixel = false;
  bool dark = true;  // its background; true where it does not say
};
// Writes a question to the terminal behind `fd` (its device attributes and its background's
// colour) and reads the answer, at most `seconds`. Not asked are: what is no terminal, one in
// whose background this process runs, and one in which somebody has typed ahead, as the letters
// would be read with the answer. The terminal's modes are as before in any case:
// signals of the keyboard and SIGTERM come to this thread when they are.
WT_API TerminalAnswer ask_terminal(int fd, double seconds);

}  // namespace wt::detail
