// The name of a module's class, read at compile time from a function's signature: no RTTI.
#pragma once
#include <string_view>

namespace wt::nn::detail {

// "Net" of "a::{anonymous}::f(int)::Net<b::c>": the last word before the template arguments, since
// compilers write namespaces, functions and lambdas around a class each in its own way. Empty for a
// class without a name.
constexpr std::string_view bare_type_name(std::string_view name) {
  size_t end = name.size();
  int depth = 0;
  while (end > 0 && (depth > 0 || name[end - 1] == '>')) {
    --end;
    depth += name[end] == '>' ? 1 : name[end] == '<' ? -1 : 0;
  }
  size_t begin = end;
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  while (begin > 0 && in_word(name[begin - 1])) --begin;
  return name.substr(begin, end - begin);
}

// "... [with Self = a::Net]" from g++, "... [Self = a::Net]" from clang.
template <class Self>
constexpr const char* signature_of() {
  return __PRETTY_FUNCTION__;
}
template <class Self>
constexpr std::string_view find_type_name() {
  std::string_view text = signature_of<Self>();
  text.remove_prefix(text.find("Self = ") + 7);
  text.remove_suffix(1);
  const std::string_view name = bare_type_name(text);
  return name.empty() ? "Module" : name;
}
// A constant, so that unoptimised code does not search at each construction.
template <class Self>
inline constexpr std::string_view kTypeName = find_type_name<Self>();

}  // namespace wt::nn::detail
