#include "warptape/tools/wt/look/kernel_names.h"

#include <algorithm>
#include <sstream>

#include "warptape/tools/wt/look/look.h"

namespace wt::tools {
namespace {

const struct {
  const char *function, *contract, *variant, *dtype, *shape;
} kLaunches[] = {
#include "warptape/tools/wt/look/kernel_names.inc"
};

// "reduce_columns", "sum", "f32" and "1" of "reduce_columns<sum,f32,1>".
std::vector<std::string> words_of_title(const std::string& title) {
  std::string text = machine_code_name(title);
  for (char& c : text)
    if (c == '<' || c == '>' || c == ',') c = ' ';
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace

std::string function_of(const std::string& title) {
  const std::string name = title.substr(0, title.find_first_of("< ["));
  const size_t scope = name.rfind("::");
  return scope == name.npos ? name : name.substr(scope + 2);
}

std::string dtype_of_title(const std::string& title) {
  for (const std::string& word : words_of_title(title))
    if (word == "f32" || word == "f16" || word == "bf16" || word == "f64") return word;
  return "";
}

std::vector<KernelLaunch> launches_of(const std::string& title) {
  std::string name = function_of(title);
  const auto named = [&](const auto& l) { return name == l.function; };
  if (std::none_of(std::begin(kLaunches), std::end(kLaunches), named) && name.ends_with("_kernel"))
    name.resize(name.size() - 7);
  std::vector<KernelLaunch> found;
  for (const auto& l : kLaunches)
    if (named(l)) found.push_back({l.function, l.contract, l.variant, l.dtype, l.shape});
  const std::vector<std::string> words = words_of_title(title);
  const std::string dtype = dtype_of_title(title);
  if (!dtype.empty())
    for (KernelLaunch& l : found) l.dtype = dtype;
  std::stable_partition(found.begin(), found.end(), [&](const KernelLaunch& l) {
    return std::find(words.begin(), words.end(), l.contract) != words.end();
  });
  return found;
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const auto& l : kLaunches)
    if (names.empty() || names.back() != l.function) names.emplace_back(l.function);
  return names;
}

}  // namespace wt::tools
