#include "warptape/core/numbers/scalar_as.h"

#include <cmath>

#include "warptape/core/error.h"
#include "warptape/core/float8.h"
#include "warptape/core/numbers/narrow.h"
#include "warptape/core/str.h"

namespace wt::detail {
namespace {

template <class V>  // double, i64 or u64
double rounded(DType t, V v) {
  switch (t) {
    case DType::f32:
      return float(v);
    case DType::f16:
      return float(Half(before_narrowing(v)));
    case DType::bf16:
      return float(BFloat16(before_narrowing(v)));
    case DType::f8_e4m3:
      return e4m3_to_float(float_to_e4m3(before_narrowing(v)));
    case DType::f8_e5m2:
      return e5m2_to_float(float_to_e5m2(before_narrowing(v)));
    default:
      return double(v);
  }
}

bool is_unsigned(DType t) {
  return t == DType::u8 || t == DType::u16 || t == DType::u32 || t == DType::u64;
}
// A u64 beyond i64: a Scalar has its bits, and what they are worth.
bool is_beyond_i64(Scalar v) { return v.kind == Scalar::Kind::integer && v.i < 0 && v.f > 0; }

bool holds_cut(DType t, double v) {  // NaN: no
  const int bits = int(item_size(t)) * 8;
  if (is_unsigned(t)) return v > -1 && v < std::ldexp(1.0, bits);
  const double beyond = std::ldexp(1.0, bits - 1);
  return v < beyond && (bits == 64 ? v >= -beyond : v > -beyond - 1);
}

}  // namespace

double rounded_to(DType t, Scalar v) {
  if (v.kind == Scalar::Kind::floating) return rounded(t, v.f);
  return is_beyond_i64(v) ? rounded(t, u64(v.i)) : rounded(t, v.i);
}

i64 whole_of(DType t, Scalar v) {
  const bool large = t == DType::u64 && v.kind == Scalar::Kind::floating && v.f >= 0x1p63;
  return large && v.f < 0x1p64 ? i64(u64(v.f)) : v.to_int();
}

bool holds(DType t, Scalar v) {
  if (t == DType::boolean) return true;
  if (is_floating(t)) return !std::isfinite(v.f) || std::isfinite(rounded_to(t, v));
  if (v.kind == Scalar::Kind::floating) return holds_cut(t, v.f);
  if (is_beyond_i64(v)) return t == DType::u64;
  const int bits = int(item_size(t)) * 8;
  if (is_unsigned(t)) return v.i >= 0 && (bits == 64 || v.i >> bits == 0);
  return bits == 64 || v.i >> (bits - 1) == (v.i < 0 ? -1 : 0);
}

std::string text_of(Scalar v) {
  if (v.kind == Scalar::Kind::floating) return str(v.f);
  return is_beyond_i64(v) ? str(u64(v.i)) : str(v.i);
}

void require_held(const char* op, DType t, Scalar v, Frame at) {
  if (!holds(t, v))
    throw DtypeError(
        str("[", op, "] ", dtype_name(t), " cannot hold ", text_of(v), "\n  at ", describe(at)));
}

}  // namespace wt::detail
