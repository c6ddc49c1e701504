#pragma once
#include <string>

namespace wt {

// A field of a line of comma-separated values, as a spreadsheet takes it back (RFC 4180).
std::string csv_field(const std::string& text);

}  // namespace wt
