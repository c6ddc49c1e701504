// What a person should know though nothing is wrong with the program.
#pragma once
#include <string_view>

#include "warptape/core/macros.h"

namespace wt {

// One line without its end. Called on the thread where it happens, from several at once; must not
// throw and must not call operators.
using WarningHandler = void (*)(std::string_view line) noexcept;

// The handler of the process from now on; returns the one before. Null drops warnings.
//
// This is the one place where the library writes without being asked: until a handler is set,
// warnings go to stderr. Each is written once a process, and each is about time that is lost
// without a trace, or measured wrongly, which nobody looks for who has not been told.
WT_API WarningHandler set_warning_handler(WarningHandler handler);

// --- for the library ---
// Hands `line` to the handler unless a warning of this key has been handed out already. Ends of
// lines in it (it may be an error's text) become commas.
void warn_once(std::string_view key, std::string_view line);
namespace detail {
void forget_warnings();  // for tests: every warning is news again
}

}  // namespace wt
