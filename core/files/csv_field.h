// Lines of comma-separated values. Internal.
#pragma once
#include <string>

#include "warptape/core/macros.h"

namespace wt {

// A field of a line of comma-separated values, as a spreadsheet takes it back (RFC 4180).
WT_API std::string csv_field(const std::string& text);

}  // namespace wt
