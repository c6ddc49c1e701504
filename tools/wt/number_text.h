// How wt writes numbers for people; JSON has them in full.
#pragma once
#include <string>

#include "warptape/core/types.h"

namespace wt::tools {

std::string fixed_digits(double v, int digits);  // 1.2500
std::string three_digits(double v);              // 0.00125, 1.25e+06
std::string percent_text(double part);           // 91.25 %
std::string bytes_text(i64 bytes);               // 312 KiB, 40 MiB
// "16GiB", "1.5 MB", "4096": KB, MB, GB, TB are powers of 1000, KiB ... of 1024. UsageError, naming
// the option, for anything else and for less than 1.
i64 bytes_of_text(const std::string& text, const char* option);

}  // namespace wt::tools
