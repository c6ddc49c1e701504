// What an error says, for messages that say it as their own.
#pragma once
#include <cstring>
#include <string>

#include "warptape/core/error.h"

namespace wt::tools {

// Without "DataError: ", or what its kind is called.
inline std::string without_kind(const Error& e) { return e.what() + std::strlen(e.kind()) + 2; }

}  // namespace wt::tools
