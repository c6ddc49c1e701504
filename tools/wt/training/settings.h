// What a recipe lets its users choose: --set key=value.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/core/types.h"

namespace wt::tools {

// A recipe asks for each of its settings once, with a default and what is allowed, then calls
// finish().
class Settings {
 public:
  // Throws UsageError unless each is KEY=VALUE and no key comes twice.
  explicit Settings(const std::vector<std::string>& assignments);
  // Of text().
  static Settings parse(const std::string& text);

  // Each throws UsageError, naming the key, for a value that is not of its kind or not allowed.
  i64 integer(const char* key, i64 standard, i64 least, i64 most);
  double real(const char* key, double standard, double least, double most);
  bool flag(const char* key, bool standard);
  std::string word(const char* key, const std::string& standard);  // letters, digits and _ - .
  std::string choice(const char* key, const std::vector<std::string>& allowed);  // the first
  // A place to read something from: empty if it is not given. It is no part of text(), and throws
  // where parse() has found one in it: what is opened the user has named.
  std::string path(const char* key);

  // Throws UsageError, with the near name, for a key that was given and that nobody asked for.
  void finish(std::string_view recipe) const;
  // All that were asked for, with the values used: "layers=4 heads=4".
  const std::string& text() const { return text_; }

 private:
  const std::string* given(const char* key);
  void used(const char* key, const std::string& value);

  std::vector<std::pair<std::string, std::string>> given_;
  std::vector<std::string> asked_;
  bool parsed_ = false;
  std::string text_;
};

}  // namespace wt::tools
