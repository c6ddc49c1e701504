#include "warptape/tools/recipes.h"

#include "warptape/core/suggest.h"

namespace wt::tools {

const std::vector<RecipeInfo>& recipes() {
  static const std::vector<RecipeInfo> kAll = {
      {"charlm",
       "next byte of a text from the 16 before it: embedding and MLP; without --data the "
       "text is warptape's own sources and docs",
       make_charlm},
      {"fashion", "an MLP on Fashion-MNIST or MNIST (IDX files, plain or .gz, in --data)",
       make_fashion}};
  return kAll;
}

const RecipeInfo& find_recipe(const std::string& name) {
  std::vector<std::string_view> names;
  for (const RecipeInfo& r : recipes()) {
    if (name == r.name) return r;
    names.push_back(r.name);
  }
  std::string all;
  for (const std::string_view n : names) all += (all.empty() ? "" : ", ") + std::string(n);
  throw UsageError(
      str("there is no recipe '", name, "'", did_you_mean(name, names), " (", all, ")"));
}

}  // namespace wt::tools
