#include "warptape/core/str.h"

#include <charconv>
#include <cmath>
#include <sstream>

namespace wt::detail {
namespace {

template <class T, class... Format>
void append_chars(std::string& out, T v, Format... format) {
  char text[32];
  out.append(text, std::to_chars(text, text + sizeof text, v, format...).ptr);
}

}  // namespace

void append_number(std::string& out, long long v) { append_chars(out, v); }
void append_number(std::string& out, unsigned long long v) { append_chars(out, v); }
void append_number(std::string& out, double v) {
  // As operator<< prints it, but for NaN: x86's 0.0 / 0 has a sign, which tells nobody anything.
  append_chars(out, std::isnan(v) ? std::fabs(v) : v, std::chars_format::general, 6);
}

void append_streamed(std::string& out, const void* value,
                     void (*print)(std::ostream& to, const void* value)) {
  std::ostringstream to;
  to.imbue(std::locale::classic());
  print(to, value);
  out += to.view();
}

}  // namespace wt::detail
