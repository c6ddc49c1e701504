// For rows of operators that add up products.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

inline const std::vector<DType> kProducts{f64, f32, f16, bf16, DType::i64, DType::i32};

// The sum over `inner` of a product, at each place of the result.
struct Terms {
  Shape result, inner;
  std::function<double(const std::vector<i64>&, const std::vector<i64>&)> term;
};
inline Array added_up(const Terms& t) {
  Array y{t.result, {}};
  y.terms = kTermsOfFormula + double(count(t.inner));
  for (i64 i = 0; i < count(t.result); ++i) {
    double sum = 0, size = 0;
    for (i64 k = 0; k < count(t.inner); ++k) {
      const double v = t.term(unravel(i, t.result), unravel(k, t.inner));
      sum += v;
      size += std::fabs(v);
    }
    y.v.push_back(sum);
    y.magnitude.push_back(size);
  }
  return y;
}

inline ErrorInput bad_shapes(const std::string& text, std::vector<Shape> shapes,
                             const std::function<void(const std::vector<Tensor>&)>& call) {
  return error_input<ShapeError>("shapes " + text, text, [=](Device d) {
    std::vector<Tensor> in;
    for (const Shape& s : shapes) in.push_back(ones(s, {.device = d}));
    call(in);
  });
}

}  // namespace wt_test
