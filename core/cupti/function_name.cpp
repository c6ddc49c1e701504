#include "warptape/core/cupti/function_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>

namespace wt::profiler {
namespace {

constexpr std::size_t kLongest = 48;  // with template arguments

void erase_all(std::string& text, const std::string& what) {
  for (std::size_t at; (at = text.find(what)) != std::string::npos;) text.erase(at, what.size());
}

// Where the parameters begin: the first parenthesis outside of template arguments.
std::size_t parameters_of(const std::string& text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '[') ++depth;
    if ((c == '>' && (i == 0 || text[i - 1] != '-')) || c == ']') --depth;
    if (c == '(' && depth == 0) return i;
  }
  return text.size();
}

// Behind the last space or "::" that is outside of template arguments.
std::size_t last_part(const std::string& text) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (depth == 0 && (c == ' ' || (c == ':' && i > 0 && text[i - 1] == ':'))) begin = i + 1;
  }
  return begin;
}

std::string shortened(std::string text) {
  erase_all(text, "(anonymous namespace)::");
  text.resize(parameters_of(text));
  text.erase(0, last_part(text));
  if (text.size() <= kLongest) return text;
  const std::size_t arguments = text.find('<');
  return arguments == std::string::npos ? text : text.substr(0, arguments) + "<...>";
}

}  // namespace

std::string function_name(const char* mangled) {
  if (!mangled || !*mangled) return "(a kernel without a name)";
  int status = 0;
  char* const whole = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  if (status != 0 || !whole) return mangled;
  std::string text = shortened(whole);
  std::free(whole);
  return text.empty() ? mangled : text;
}

const char* interned_function(const char* mangled) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const names = new std::unordered_map<std::string, std::string>;
  const std::lock_guard lock(*mutex);
  const auto [at, fresh] = names->try_emplace(mangled ? mangled : "");
  if (fresh) at->second = function_name(mangled);
  return at->second.c_str();
}

}  // namespace wt::profiler
