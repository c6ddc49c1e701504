#include "warptape/tools/wt/number_text.h"

#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>

#include "warptape/core/error.h"
#include "warptape/core/input_file.h"

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

i64 bytes_of_text(const std::string& text, const char* option) {
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"", 1},      {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  double number = 0;
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, number);
  while (at != end && *at == ' ') ++at;
  const std::string_view unit(at, size_t(end - at));
  for (const auto& [name, factor] : kUnits)
    if (error == std::errc() && unit == name && number * factor >= 1 && number * factor < 0x1p62)
      return i64(number * factor);
  throw UsageError(str(option, " ", printable(text), " is no number of bytes, as 16GiB, 500MB and ",
                       "4096 are"));
}

}  // namespace wt::tools
