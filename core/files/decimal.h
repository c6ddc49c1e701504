// Decimal numbers from files. Internal.
#pragma once
#include <charconv>
#include <limits>
#include <system_error>

namespace wt::detail {

// Whether a number that std::from_chars calls out of range, [begin, end), is too small and not too
// large: the power of ten of its first digit that is not 0.
inline bool is_tiny(const char* begin, const char* end) {
  long long power = 0;
  bool point = false, seen = false;
  const char* at = begin;
  for (; at != end && *at != 'e' && *at != 'E'; ++at) {
    if (*at == '.') point = true;
    if (*at < '0' || *at > '9') continue;
    seen |= *at != '0';
    power += seen && !point ? 1 : !seen && point ? -1 : 0;
  }
  if (at == end) return power < 0;
  const bool minus = ++at != end && *at == '-';
  if (at != end && (*at == '-' || *at == '+')) ++at;
  long long exponent = 0;
  constexpr long long kMost = 1LL << 60;  // more than any text has digits: the sum below fits
  if (std::from_chars(at, end, exponent).ec != std::errc() || exponent > kMost) return minus;
  return power + (minus ? -exponent : exponent) < 0;
}

// std::from_chars, and what is too small for the type is 0, or -0, as for every other reader of
// numbers; what is too large stays std::errc::result_out_of_range.
template <class T>
std::from_chars_result decimal_from_chars(const char* begin, const char* end, T& value) {
  std::from_chars_result r = std::from_chars(begin, end, value);
  if constexpr (std::numeric_limits<T>::has_infinity) {
    if (r.ec == std::errc::result_out_of_range && is_tiny(begin, r.ptr)) {
      value = *begin == '-' ? -T(0) : T(0);
      r.ec = {};
    }
  }
  return r;
}

}  // namespace wt::detail
