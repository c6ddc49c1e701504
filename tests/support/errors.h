// What an error says.
#pragma once
#include <functional>
#include <string>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"

// The text of the library's error that f throws; empty when it throws none.
inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const wt::Error& e) {
    return e.what();
  }
  return "";
}

// CHECK(mentions(...)): the whole text is shown when the part is missing.
inline bool mentions(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  UNSCOPED_INFO("in: " << text);
  return false;
}
