// A number with its kind: integer literals stay integers, float literals take the default dtype.
#pragma once
#include <concepts>

#include "warptape/core/dtype.h"
#include "warptape/core/half.h"
#include "warptape/core/macros.h"

namespace wt {

template <class T>
concept Number = std::integral<T> || std::floating_point<T>;

struct Scalar {
  enum class Kind : u8 { boolean, integer, floating };
  double f = 0;
  i64 i = 0;
  Kind kind = Kind::integer;

  constexpr Scalar() = default;
  template <Number T>
  constexpr Scalar(T v)  // NOLINT: implicit by design
      : f(double(v)),
        i(std::is_floating_point_v<T> ? 0 : i64(v)),
        kind(std::same_as<T, bool>         ? Kind::boolean
             : std::is_floating_point_v<T> ? Kind::floating
                                           : Kind::integer) {}
  constexpr double to_double() const { return f; }
  // Towards zero; NaN and what does not fit give the least integer, as the conversion instruction
  // does.
  constexpr i64 to_int() const {
    if (kind != Kind::floating) return i;
    return f >= -0x1p63 && f < 0x1p63 ? i64(f) : -0x7fffffffffffffff - 1;
  }
  constexpr int category() const { return int(kind); }
};

}  // namespace wt
