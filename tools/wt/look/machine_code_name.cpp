// What tools/sass/names.py calls a kernel, of what simt calls it.
#include <cctype>
#include <utility>

#include "warptape/tools/wt/look/look.h"

namespace wt::tools {
namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

void replace_word(std::string& text, const std::string& word, const std::string& by) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    const size_t end = at + word.size();
    if ((at > 0 && in_word(text[at - 1])) || (end < text.size() && in_word(text[end]))) {
      at = end;
      continue;
    }
    text.replace(at, word.size(), by);
    at += by.size();
  }
}
void remove_all(std::string& text, const std::string& part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at))
    text.erase(at, part.size());
}

// IsNan -> is_nan
std::string snake(const std::string& name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool upper = std::isupper(static_cast<unsigned char>(name[i]));
    if (upper && i > 0 && std::islower(static_cast<unsigned char>(name[i - 1]))) out += '_';
    out += char(std::tolower(static_cast<unsigned char>(name[i])));
  }
  return out;
}

// "Typed<f32>" -> "f32"
void unwrap(std::string& text, const std::string& wrapper) {
  for (size_t at = text.find(wrapper + "<"); at != std::string::npos;
       at = text.find(wrapper + "<", at)) {
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return;
    text.erase(end, 1);
    text.erase(at, wrapper.size() + 1);
  }
}

// The first of "<a,b>" and the rest with its comma.
std::pair<std::string, std::string> first_argument(const std::string& arguments) {
  int depth = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    depth += (arguments[i] == '<') - (arguments[i] == '>');
    if (arguments[i] == ',' && depth == 0) return {arguments.substr(0, i), arguments.substr(i + 1)};
  }
  return {arguments, ""};
}

std::string operator_of(const std::string& entry) {
  static const std::pair<const char*, const char*> other[] = {
      {"is_nan", "isnan"}, {"is_inf", "isinf"}, {"is_finite", "isfinite"}};
  const bool gradient = entry.starts_with("Grad<");
  std::string name = entry;
  bool second = false;
  if (gradient) {
    const auto [f, operand] = first_argument(entry.substr(5, entry.size() - 6));
    name = f, second = operand == "1";
  }
  name = snake(name);
  for (const auto& [from, to] : other)
    if (name == from) name = to;
  return gradient ? name + (second ? "_backward_b" : "_backward") : name;
}

}  // namespace

std::string machine_code_name(const std::string& title) {
  static const std::pair<const char*, const char*> types[] = {
      {"__nv_bfloat16", "bf16"}, {"__half", "f16"},       {"unsigned char", "u8"},
      {"unsigned short", "u16"}, {"unsigned int", "u32"}, {"unsigned long long", "u64"},
      {"unsigned long", "u64"},  {"long long", "i64"},    {"long", "i64"},
      {"float", "f32"},          {"double", "f64"},       {"int", "i32"},
      {"bfloat16", "bf16"},      {"half", "f16"}};
  std::string text = title.substr(0, title.find(" ["));
  for (const char* scope :
       {"{anonymous}::", "(anonymous namespace)::", "wt::", "simt::", "detail::", "pw::", "red::"})
    remove_all(text, scope);
  for (const auto& [from, to] : types) replace_word(text, from, to);
  remove_all(text, " ");
  unwrap(text, "Typed");
  const size_t open = text.find('<');
  if (open == std::string::npos || text.back() != '>') return text;
  std::string head = text.substr(0, open);
  std::string arguments = text.substr(open + 1, text.size() - open - 2);
  auto [first, rest] = first_argument(arguments);
  if (head == "pointwise" || head == "pointwise_naive") {
    head = operator_of(first) + head.substr(9);
    arguments = rest;
  } else if (head == "rule_kernel" || head == "rule_cohorts_kernel") {
    if (first.ends_with("Rule")) first.resize(first.size() - 4);
    head = snake(first) + (head == "rule_kernel" ? "_step" : "_step_cohorts");
    arguments = rest;
  } else if (head.starts_with("reduce_")) {
    arguments = snake(first) + (rest.empty() ? "" : "," + rest);
  }
  return arguments.empty() ? head : head + "<" + arguments + ">";
}

}  // namespace wt::tools
