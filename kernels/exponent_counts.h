// How many elements have which binary exponent: what says whether 16 bits hold a gradient.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// Binary exponents that are told apart: floor(log2 |x|). Smaller ones count as the smallest, larger
// ones as the largest. Then three more counters.
inline constexpr int kLowestExponent = -160, kHighestExponent = 127;
inline constexpr int kExponents = kHighestExponent - kLowestExponent + 1;
inline constexpr int kZeroBin = kExponents, kInfBin = kExponents + 1, kNanBin = kExponents + 2;
inline constexpr int kExponentBins = kExponents + 3;

// Neighbouring elements that are counted together.
struct ExponentPart {
  i64 begin;
  i32 count;  // at most kExponentPart
  i32 row;    // of the counters
};
inline constexpr i64 kExponentPart = 8192;

// counts[row][bin] += the elements x[i] of the row's parts for which x[i] * factor is of that bin;
// the product is an f64. x: n elements, f32 or f64; counts: rows x kExponentBins, i64. Parts lie
// within x, of which they may leave some out. Sums of integers: the same at every run.
struct ExponentCountsArgs {
  const void* x;
  i64 n;
  DType dtype;
  const ExponentPart* parts;
  i64 part_count;
  i64* counts;
  i64 rows;
  double factor;
  i64 bytes() const {
    return n * item_size(dtype) + part_count * i64(sizeof(ExponentPart)) +
           rows * kExponentBins * i64(sizeof(i64));
  }
  i64 flops() const { return n; }
};
WT_CONTRACT(exponent_counts, ExponentCountsArgs);

namespace detail {

// Of the bits, because no f32 times a factor of this kind is an f64 below the normal ones, and
// what is (of f64) is far below the smallest exponent here.
WT_HD WT_HOT int exponent_bin(double v) {
  const u64 bits = __builtin_bit_cast(u64, v) & ~(u64{1} << 63);
  if (bits == 0) return kZeroBin;
  const int e = int(bits >> 52) - 1023;
  if (e == 1024) return bits << 12 ? kNanBin : kInfBin;
  return (e < kLowestExponent    ? kLowestExponent
          : e > kHighestExponent ? kHighestExponent
                                 : e) -
         kLowestExponent;
}

}  // namespace detail
}  // namespace wt
