#include "warptape/tools/wt/training/settings.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/core/files/decimal.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/suggest.h"

namespace wt::tools {
namespace {

[[noreturn]] void refuse(const char* key, const std::string& value, const std::string& wanted) {
  throw UsageError(str("--set ", key, "=", printable(value), ": expected ", wanted));
}

// The whole text as a number.
template <class T>
bool read_number(const std::string& text, T& out) {
  const char* end = text.data() + text.size();
  const auto [at, error] = wt::detail::decimal_from_chars(text.data(), end, out);
  return error == std::errc() && at == end;
}

}  // namespace

Settings::Settings(const std::vector<std::string>& assignments) {
  std::set<std::string> keys;  // a checkpoint may bring any number of them
  for (const std::string& a : assignments) {
    const size_t equals = a.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == a.size())
      throw UsageError(str("--set ", printable(a), " is not KEY=VALUE"));
    const std::string key = a.substr(0, equals);
    if (!keys.insert(key).second)
      throw UsageError(str("--set ", printable(key), " is given twice"));
    given_.emplace_back(key, a.substr(equals + 1));
  }
}

Settings Settings::parse(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  Settings s(words);
  s.parsed_ = true;
  return s;
}

const std::string* Settings::given(const char* key) {
  asked_.push_back(key);
  for (const auto& [name, value] : given_)
    if (name == key) return &value;
  return nullptr;
}

void Settings::used(const char* key, const std::string& value) {
  text_ += (text_.empty() ? "" : " ") + std::string(key) + "=" + value;
}

i64 Settings::integer(const char* key, i64 standard, i64 least, i64 most) {
  i64 v = standard;
  if (const std::string* text = given(key); text)
    if (!read_number(*text, v) || v < least || v > most)
      refuse(key, *text, str("an integer from ", least, " to ", most));
  used(key, std::to_string(v));
  return v;
}

double Settings::real(const char* key, double standard, double least, double most) {
  double v = standard;
  if (const std::string* text = given(key); text)
    if (!read_number(*text, v) || !(v >= least && v <= most))
      refuse(key, *text, str("a number from ", least, " to ", most));
  used(key, json_number(v));
  return v;
}

bool Settings::flag(const char* key, bool standard) {
  return choice(key, standard ? std::vector<std::string>{"true", "false"}
                              : std::vector<std::string>{"false", "true"}) == "true";
}

std::string Settings::word(const char* key, const std::string& standard) {
  std::string v = standard;
  if (const std::string* text = given(key); text) {
    const auto fits = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             c == '_' || c == '-' || c == '.';
    };
    if (!std::all_of(text->begin(), text->end(), fits))
      refuse(key, *text, "letters, digits and _ - .");
    v = *text;
  }
  used(key, v);
  return v;
}

std::string Settings::choice(const char* key, const std::vector<std::string>& allowed) {
  std::string v = allowed.front();
  if (const std::string* text = given(key); text) {
    if (std::find(allowed.begin(), allowed.end(), *text) == allowed.end()) {
      std::string list;
      for (const std::string& a : allowed) list += (list.empty() ? "" : ", ") + a;
      refuse(key, *text, "one of " + list + did_you_mean(*text, allowed));
    }
    v = *text;
  }
  used(key, v);
  return v;
}

std::string Settings::path(const char* key) {
  const std::string* text = given(key);
  if (text && parsed_) throw UsageError(str("'", key, "' names a file, which settings never do"));
  return text ? *text : "";
}

void Settings::finish(std::string_view recipe) const {
  for (const auto& [key, value] : given_)
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end())
      throw UsageError(str(recipe, " has no setting '", printable(key), "'",
                           did_you_mean(key, asked_), " (", text_, ")"));
}

}  // namespace wt::tools
