// Public reports of wrong results elsewhere, each tried here on every device. A file of rows for
// each subject; README.md is the table of all of them, compared with the rows by reports_test.cpp.
#pragma once
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/tolerance.h"

namespace wt_test {

struct Report {
  const char* where;  // the project and the number of an issue or a pull request
  const char* said;   // what was reported, in our words
  const char* right;  // what is right, and where that is known from; never read off our own output
  wt::Tensor (*tried)(wt::Device);
  Values want;
  double terms = kTermsOfFormula;  // tests/tolerance.h
  double magnitude = 0;            // of what is added up, where it is larger than the result
};
using Reports = std::vector<Report>;

struct Subject {
  const char* title;
  const Reports& (*reports)();
};

const Reports& derivative_reports();
const Reports& value_reports();
const Reports& remainder_reports();
const Reports& statistic_reports();
const Reports& order_reports();
const Reports& layer_reports();
const Reports& training_reports();

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A vector on a device, as it is written down.
inline wt::Tensor given(wt::Device d, std::initializer_list<wt::Scalar> v,
                        wt::DType t = wt::DType::f32) {
  return wt::tensor(v, {.dtype = t, .device = d});
}
inline wt::Tensor given_leaf(wt::Device d, std::initializer_list<wt::Scalar> v,
                             wt::DType t = wt::DType::f32) {
  return wt::tensor(v, {.dtype = t, .device = d, .requires_grad = true});
}

}  // namespace wt_test
