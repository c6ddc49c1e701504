#include "warptape/tools/wt/recipes/kept_names.h"

#include <algorithm>
#include <utility>

#include "warptape/core/input_file.h"
#include "warptape/tools/wt/reports/run_output.h"

namespace wt::tools {

void KeptNames::keep(std::vector<std::string> names) {
  if (known() && names_ != names) {
    size_t i = 0;
    while (i < std::min(names.size(), names_.size()) && names[i] == names_[i]) ++i;
    throw DataError(str("the ", what_, " are not those that the model was trained on: number ", i,
                        " is ", i < names.size() ? printable(names[i]) : "missing", ", and was ",
                        i < names_.size() ? printable(names_[i]) : "none"));
  }
  names_ = std::move(names);
}

std::vector<std::string> KeptNames::shown() const {
  std::vector<std::string> names;
  for (const std::string& name : names_) names.push_back(printable(name));
  return names;
}

nn::Metadata KeptNames::kept() const {
  if (!known()) return {};
  std::string text;
  for (const std::string& name : names_) text += name + '/';
  return {{what_, text}};
}

void KeptNames::take(const nn::Metadata& kept, const std::string& path) {
  const std::string* text = find_value(kept, what_);
  if (!text) throw DataError(str(printable_path(path), ": there are no names of the ", what_));
  std::vector<std::string> names;
  std::string name;
  for (const char c : *text) {
    if (c != '/') {
      name += c;
      continue;
    }
    names.push_back(std::exchange(name, {}));
  }
  if (!name.empty() || i64(names.size()) != count_)
    throw DataError(str(printable_path(path), ": ", names.size(), " names of ", what_,
                        ", and the model ", count_, ' ', what_));
  keep(std::move(names));
}

}  // namespace wt::tools
