// Inputs of a case: values, rounded to the dtype, as tensors in a layout and as arrays for the
// oracle.
#pragma once
#include "warptape/tests/op_cases/runner.h"

namespace wt_test {

struct Inputs {
  std::vector<Tensor> tensors;
  std::vector<Array> arrays;  // the same values, after rounding
};
// `grad`: floating inputs that want a gradient are leaves.
Inputs make_inputs(const Case& c, Device d, bool grad);
// Tensors of dtype f64 on the cpu, contiguous, with the values of `arrays`.
std::vector<Tensor> reference_inputs(const Sample& s, const std::vector<Array>& arrays);
// What integers and bool make of a result: 8-bit numbers wrap.
double stored_as(double v, DType t);

}  // namespace wt_test
