// What a test changes around it, for the life of an object: the environment, and who gets warnings.
#pragma once
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/warning.h"

namespace wt_test {

// An environment variable; null: unset.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* was = std::getenv(name)) before_ = was, had_ = true;
    set(value);
  }
  ~Environment() { set(had_ ? before_.c_str() : nullptr); }
  Environment(const Environment&) = delete;
  void set(const char* value) const { value ? setenv(name_, value, 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

// Every warning is news again, and goes here.
inline std::vector<std::string>& warnings() {
  static std::vector<std::string> list;
  return list;
}
class Warnings {
 public:
  Warnings() {
    warnings().clear();
    wt::detail::forget_warnings();
    before_ = wt::set_warning_handler(
        [](std::string_view line) noexcept { warnings().emplace_back(line); });
  }
  ~Warnings() { wt::set_warning_handler(before_); }
  Warnings(const Warnings&) = delete;

 private:
  wt::WarningHandler before_;
};

}  // namespace wt_test
