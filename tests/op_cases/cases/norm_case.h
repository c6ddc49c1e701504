// Oracles of the normalisations of rows, for their own rows and for those of what ends with one.
#pragma once
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

// Inputs: x, then weight and bias where they are given, of the shape of x's last axes.
inline Oracle layer_norm_oracle(int axes, double eps) {
  return [axes, eps](const std::vector<Array>& in) {
    const Array& x = in[0];
    i64 length = 1;
    for (int d = x.shape.ndim() - axes; d < x.shape.ndim(); ++d) length *= x.shape[d];
    Array r{x.shape, {}, kTermsOfFormula + double(length)};
    for (size_t begin = 0; begin < x.v.size(); begin += size_t(length)) {
      double mean = 0, size = 0, variance = 0;
      for (size_t i = 0; i < size_t(length); ++i) mean += x.v[begin + i] / double(length);
      for (size_t i = 0; i < size_t(length); ++i) {
        const double d = x.v[begin + i] - mean;
        size += std::fabs(x.v[begin + i]) / double(length);
        variance += d * d / double(length);
      }
      const double rstd = 1 / std::sqrt(variance + eps);
      for (size_t i = 0; i < size_t(length); ++i) {
        const double w = in.size() > 1 ? in[1].v[i] : 1, b = in.size() > 2 ? in[2].v[i] : 0;
        r.v.push_back((x.v[begin + i] - mean) * rstd * w + b);
        // x and the mean are subtracted from each other.
        r.magnitude.push_back((std::fabs(x.v[begin + i]) + size) * rstd * std::fabs(w) +
                              std::fabs(b));
      }
    }
    return r;
  };
}

inline Oracle rms_norm_oracle(int axes, double eps) {
  return [axes, eps](const std::vector<Array>& in) {
    const Array& x = in[0];
    i64 length = 1;
    for (int d = x.shape.ndim() - axes; d < x.shape.ndim(); ++d) length *= x.shape[d];
    Array r{x.shape, {}, kTermsOfFormula + double(length)};
    for (size_t begin = 0; begin < x.v.size(); begin += size_t(length)) {
      double squares = 0;
      for (size_t i = 0; i < size_t(length); ++i)
        squares += x.v[begin + i] * x.v[begin + i] / double(length);
      for (size_t i = 0; i < size_t(length); ++i)
        r.v.push_back(x.v[begin + i] / std::sqrt(squares + eps) * (in.size() > 1 ? in[1].v[i] : 1));
    }
    return r;
  };
}

}  // namespace wt_test
