// Elementwise operators that are made of others.
#pragma once
#include "warptape/core/in.h"

namespace wt {

// 2^x, which is exact where x is a whole number and 2^x one of the dtype's. Integers become the
// default dtype.
WT_API Tensor exp2(const In& x);
// a log(b), and 0 where a is 0 and b is not NaN, whatever b is otherwise. Operands broadcast and
// promote; integers become the default dtype, 16-bit floats compute in f32. a's gradient is log(b);
// both are 0 where a is 0 and log(b) is not finite. Throws ShapeError.
WT_API Tensor xlogy(const In& a, const In& b);

struct AddcOptions {
  Scalar value = 1;
};
// x + value * a * b. Operands broadcast and promote; 16-bit floats compute in f32, and only the sum
// is rounded. Throws ShapeError.
WT_API Tensor addcmul(const In& x, const In& a, const In& b, const AddcOptions& options = {});
// x + value * a / b. What addcmul says holds for it too; integers become the default dtype.
WT_API Tensor addcdiv(const In& x, const In& a, const In& b, const AddcOptions& options = {});

struct IscloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;  // NaN is close to NaN
};
// A bool an element: |a - b| <= atol + rtol |b|, or a is b. Of infinities only equal ones are
// close. Shapes broadcast; any one dtype; compared in f32, f64 operands and integers in f64. No
// gradient. Throws DtypeError for two dtypes, ShapeError, UsageError for a negative tolerance.
WT_API Tensor isclose(const In& a, const In& b, const IscloseOptions& options = {});

}  // namespace wt
