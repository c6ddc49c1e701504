// Wide numbers on their way to floats of 16 and 8 bits: one rounding, not one to f32 and another
// one from there. No STL and no CUDA header: the same text serves host and device.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt::detail {

// v rounded to the neighbouring float that is odd, unless a float is v: the last bit says that
// something was cut off. Rounding that to nearest even in 22 bits or fewer gives what rounding v
// would (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms
// using rounding to odd"). V: float, double or long double.
template <class V>
WT_HD WT_HOT float float_to_odd(V v) {
  const float f = float(v);
  if (V(f) == v) return f;
  const bool beyond = (V(f) < 0 ? -V(f) : V(f)) > (v < 0 ? -v : v);
  return __builtin_bit_cast(float, (__builtin_bit_cast(u32, f) - u32(beyond)) | 1u);
}

// Likewise from 64 bits to the 53 of a double.
WT_HD WT_HOT double double_to_odd(u64 v) {
  return double(v >> 53 ? (v & ~u64(0x7ff)) | u64((v & 0x7ff) != 0) << 11 : v);
}

// The float that v is on its way to fewer bits than a float has.
WT_HD WT_HOT float before_narrowing(float v) { return v; }
WT_HD WT_HOT float before_narrowing(double v) { return float_to_odd(v); }
WT_HD WT_HOT float before_narrowing(u64 v) { return float_to_odd(double_to_odd(v)); }
WT_HD WT_HOT float before_narrowing(i64 v) {
  return v < 0 ? -before_narrowing(u64(0) - u64(v)) : before_narrowing(u64(v));
}
WT_HD WT_HOT float before_narrowing(i32 v) { return float_to_odd(double(v)); }

}  // namespace wt::detail
