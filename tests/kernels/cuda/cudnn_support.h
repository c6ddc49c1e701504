// For the tests of cuDNN's variants.
#pragma once
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/warning.h"
#include "warptape/kernels/device/cudnn_functions.h"
#include "warptape/tests/support/catch.h"

namespace wt_test {

// An environment variable for the life of this; null: unset.
struct Environment {
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* was = std::getenv(name)) before_ = was, had_ = true;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Environment() { had_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
  const char* name_;
  std::string before_;
  bool had_ = false;
};

inline std::vector<std::string>& warnings() {
  static std::vector<std::string> list;
  return list;
}
struct Warnings {
  Warnings() {
    warnings().clear();
    wt::detail::forget_warnings();
    before_ = wt::set_warning_handler(
        [](std::string_view line) noexcept { warnings().emplace_back(line); });
  }
  ~Warnings() { wt::set_warning_handler(before_); }
  wt::WarningHandler before_;
};

inline double worst(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::fabs(a[i] - b[i]);
    if (!(d <= most)) most = d;
  }
  return most;
}

}  // namespace wt_test
