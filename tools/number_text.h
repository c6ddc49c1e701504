// How wt writes numbers for people; JSON has them in full.
#pragma once
#include <string>

#include "warptape/core/types.h"

namespace wt::tools {

std::string fixed_digits(double v, int digits);  // 1.2500
std::string three_digits(double v);              // 0.00125, 1.25e+06
std::string percent_text(double part);           // 91.25 %
std::string bytes_text(i64 bytes);               // 312 KiB, 40 MiB

}  // namespace wt::tools
