// The name of a module's class, read from a function's signature: no RTTI.
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

// The name in what signature_of() of nn/module.h gives.
constexpr std::string_view find_type_name(std::string_view signature) {
  signature.remove_prefix(signature.find("Self = ") + 7);
  signature.remove_suffix(1);
  const std::string_view name = bare_type_name(signature);
  return name.empty() ? "Module" : name;
}

}  // namespace wt::nn::detail
