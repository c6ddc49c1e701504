// Lines above the progress bars of stderr that are redrawn in place, as a curve is. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/progress.h"

namespace wt::detail {

struct TerminalSize {
  int columns, rows;  // one column less than there are: a full line makes some terminals wrap
};
// Of stderr, by COLUMNS and LINES where these are set; asked again at each call.
WT_API TerminalSize stderr_size();
WT_API ProgressStyle style_of_stderr();
WT_API bool locale_is_utf8();  // by LC_ALL, LC_CTYPE, LANG

// Replaces them, in one write; nothing without a bar that is being drawn on stderr. They stand
// below messages and finished bars, and stay where they are when the last bar is closed. No line
// may be wider than the terminal.
WT_API void set_progress_head(std::vector<std::string> lines);

}  // namespace wt::detail
