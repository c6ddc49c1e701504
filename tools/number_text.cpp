#include "warptape/tools/number_text.h"

#include <cstdio>

#include "warptape/core/str.h"

namespace wt::tools {

std::string fixed_digits(double v, int digits) {
  char text[400];  // the largest double has 309 digits before the point
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}
std::string three_digits(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", v);
  return text;
}
std::string percent_text(double part) { return fixed_digits(100 * part, 2) + " %"; }
std::string bytes_text(i64 bytes) {
  return bytes < (10 << 20) ? str(bytes / 1024, " KiB") : str(bytes >> 20, " MiB");
}

}  // namespace wt::tools
