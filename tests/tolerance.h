// The one table of how far a result may be off. Not a number a test: a rule by dtype and length of
// the reduction, |error| <= u_out |reference| + terms u_acc magnitude, where
//   u_out      half a unit in the last place of the output's dtype
//   u_acc      the same of what is computed in: 2^-24, for f64 2^-53
//   terms      roundings in a row: 4 (two units in the last place) for one function of the maths
//              library, 8 for a formula of several, K + 8 for a sum of K products
//   magnitude  what these roundings are relative to: the sum of absolute values that were added, or
//              |reference|
// Where a contract lets variants round what is between two products of 16-bit operands to 16 bits,
// half a unit in their last place of the absolute values that were added comes on top.
// NaN is never equal to a number, nor inf to a finite one.
#pragma once
#include <cmath>

#include "warptape/core/dtype.h"

namespace wt_test {

inline constexpr double kTermsOfFunction = 4, kTermsOfFormula = 8;
// Roundings on the way of a gradient: each saved value, each factor and the result, in the dtype of
// the tensors, relative to the largest gradient of the tensor.
inline constexpr double kTermsOfGradient = 8;

// Kernels take exponentials of 16-bit storage by __expf, which CUDA documents (C++ Programming
// Guide, intrinsic functions) to be off by up to 2 + floor(|1.173 x|) units in the last place: in
// roundings, for arguments of up to this size. All else on the device keeps to a function's or a
// formula's terms.
inline double terms_of_fast_exp(double size) { return 2 * (2 + std::floor(1.173 * size)); }

struct Precision {
  double u;         // half a unit in the last place, relative
  double u_acc;     // of what is computed in
  double smallest;  // half the smallest number: below it rounding is absolute
};
constexpr Precision precision_of(wt::DType t) {
  switch (t) {
    case wt::DType::f64:
      return {0x1p-53, 0x1p-53, 0x1p-1074};
    case wt::DType::f32:
      return {0x1p-24, 0x1p-24, 0x1p-149};
    case wt::DType::f16:
      return {0x1p-11, 0x1p-24, 0x1p-25};
    case wt::DType::bf16:
      return {0x1p-8, 0x1p-24, 0x1p-134};
    default:
      return {0, 0, 0};  // integers and bool are exact
  }
}

// `output` is the dtype of the result, `compute` that of the floating operands.
inline double value_bound(wt::DType output, wt::DType compute, double terms, double reference,
                          double magnitude) {
  const Precision out = precision_of(output), in = precision_of(compute);
  if (out.u == 0) return 0;
  const double u_acc = out.u_acc < in.u_acc ? in.u_acc : out.u_acc;
  return out.u * std::fabs(reference) + terms * u_acc * magnitude + out.smallest;
}

// `terms`: the longest sum on the way; `largest`: the largest gradient of the tensor.
inline double gradient_bound(wt::DType t, double terms, double reference, double largest) {
  const Precision p = precision_of(t);
  return p.u * std::fabs(reference) + (kTermsOfGradient * p.u + terms * p.u_acc) * largest +
         p.smallest;
}

inline bool within(double got, double want, double bound) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::fabs(got - want) <= bound;
}

}  // namespace wt_test
