// For rows of operators on matrices: oracles of one matrix, for all of a tensor.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

using Matrix = std::vector<double>;
using OfMatrix = std::function<Matrix(const Matrix&)>;

// `f` of each matrix of x, one after the other.
inline Array each_matrix(const Array& x, const Shape& result, const OfMatrix& f) {
  const int batch_ndim = x.shape.ndim() - 2;
  const i64 rows = x.shape[batch_ndim], columns = x.shape[batch_ndim + 1], size = rows * columns;
  Array y{result, {}};
  y.terms = kTermsOfFormula + 4 * double(rows + columns);
  for (i64 b = 0; b < count(Shape(x.shape.data(), batch_ndim)); ++b) {
    const Matrix m = f(Matrix(x.v.begin() + b * size, x.v.begin() + (b + 1) * size));
    double largest = 0;
    for (const double v : m) largest = std::max(largest, std::fabs(v));
    y.v.insert(y.v.end(), m.begin(), m.end());
    // Errors are relative to the matrix, not to its elements; the conditions here are small.
    y.magnitude.insert(y.magnitude.end(), m.size(), 4 * largest);
  }
  return y;
}

}  // namespace wt_test
