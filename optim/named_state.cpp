// What an optimizer is made of and what it loads: entries and state by name.
#include <algorithm>
#include <string_view>

#include "warptape/autograd/node.h"
#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/input_file.h"
#include "warptape/optim/arena.h"

namespace wt::optim::detail {

std::vector<Entry> leaves(std::span<const nn::NamedTensor> parameters) {
  std::vector<Entry> entries;
  for (const nn::NamedTensor& p : parameters) {
    if (!p.tensor.defined() || !leaf_of(p.tensor.impl()))
      throw UsageError(str("[optimizer] ", p.name, " is not a leaf that requires grad", at_line()));
    entries.push_back({p.name, p.tensor});
  }
  // State is saved and found by these names.
  std::vector<std::string_view> names;
  for (const Entry& e : entries) names.push_back(e.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw UsageError(str("[optimizer] two parameters are named '", *twice, "'", at_line(),
                         "\n  Try nn::add_prefix(list, \"...\") on those of each module"));
  return entries;
}

// Throws UsageError for the state of another optimizer.
static void check_kind(const char* mine, const std::vector<nn::NamedTensor>& values) {
  constexpr std::string_view mark = "optim.kind.";
  for (const nn::NamedTensor& v : values)
    if (v.name.compare(0, mark.size(), mark) == 0 && v.name.substr(mark.size()) != mine)
      throw UsageError(str("[load_state] the state is of ", printable(v.name.substr(mark.size())),
                           ", this optimizer is ", mine, at_line()));
}

void check_state(const char* kind, const std::vector<nn::NamedTensor>& mine,
                 const std::vector<nn::NamedTensor>& values) {
  check_kind(kind, values);
  const auto find = [](const std::vector<nn::NamedTensor>& list, const std::string& name) {
    return std::find_if(list.begin(), list.end(), [&](const auto& t) { return t.name == name; });
  };
  std::string problems;
  for (const nn::NamedTensor& m : mine) {
    const auto v = find(values, m.name);
    if (v == values.end())
      problems += str("\n  missing ", m.name, " ", m.tensor.shape());
    else if (v->tensor.shape() != m.tensor.shape())
      problems += str("\n  ", m.name, " is ", m.tensor.shape(), " here and ", v->tensor.shape(),
                      " in the state");
  }
  size_t unexpected = 0;  // of a file there may be any number, of any length
  for (const nn::NamedTensor& v : values)
    if (find(mine, v.name) == mine.end() && ++unexpected <= 50)
      problems += "\n  unexpected " + printable(v.name);
  if (unexpected > 50) problems += str("\n  and ", unexpected - 50, " more unexpected");
  if (!problems.empty())
    throw UsageError(str("[load_state] the names or shapes do not fit", problems, at_line()));
}

i64 count_of(const std::vector<nn::NamedTensor>& values, const std::string& name) {
  const auto v = std::find_if(values.begin(), values.end(),
                              [&](const nn::NamedTensor& t) { return t.name == name; });
  if (v == values.end() || v->tensor.numel() != 1 || !is_integral(v->tensor.dtype()))
    throw UsageError(str("[load_state] the state has no integer ", name, at_line()));
  const i64 n = v->tensor.item<i64>();
  if (n < 0 || n > i64{1} << 62)
    throw UsageError(str("[load_state] ", name, " is ", n, ", which is no count", at_line()));
  return n;
}

}  // namespace wt::optim::detail
