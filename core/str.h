// Joins words and numbers into the text of a message: str("size ", n).
//
// Numbers read as operator<< prints them, in every locale. No <sstream>: every file that includes
// the library would instantiate it.
#pragma once
#include <concepts>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

#include "warptape/core/macros.h"

namespace wt {
namespace detail {

WT_API void append_number(std::string& out, long long v);
WT_API void append_number(std::string& out, unsigned long long v);
WT_API void append_number(std::string& out, double v);  // six digits, as %g has them
WT_API void append_streamed(std::string& out, const void* value,
                            void (*print)(std::ostream& to, const void* value));

template <class T>
void append(std::string& out, const T& v) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out += std::string_view(v);
  } else if constexpr (std::same_as<T, char>) {
    out += v;
  } else if constexpr (std::floating_point<T>) {
    append_number(out, double(v));
  } else if constexpr (std::unsigned_integral<T>) {
    append_number(out, static_cast<unsigned long long>(v));
  } else if constexpr (std::integral<T>) {
    append_number(out, static_cast<long long>(v));
  } else {
    append_streamed(
        out, &v, [](std::ostream& to, const void* value) { to << *static_cast<const T*>(value); });
  }
}

}  // namespace detail

// Of texts, characters, numbers (bool is 0 or 1) and whatever has operator<<.
template <class... Parts>
std::string str(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

}  // namespace wt
