#include "warptape/tools/wt/recipes/recipes.h"

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/suggest.h"

namespace wt::tools {

Loss Recipe::loss(const data::Batch& b) {
  Tensor y = logits(b.x);
  const i64 classes = y.size(-1);
  return cross_entropy(reshape(std::move(y), {-1, classes}), reshape(b.y, {-1}));
}

Tensor Recipe::prepare(const Tensor&) const { throw UsageError("this recipe takes no images"); }

void Recipe::set_settings(const Settings& s, const char* recipe) {
  s.finish(recipe);
  settings_ = s.text();
}

const std::vector<RecipeInfo>& recipes() {
  static const std::vector<RecipeInfo> kAll = {
      {"charlm",
       "a small GPT on the bytes of a text; without --data on warptape's own sources and docs",
       make_charlm},
      {"fashion", "a CNN on Fashion-MNIST or MNIST (IDX files, plain or .gz, in --data)",
       make_fashion},
      {"cifar", "a CNN on CIFAR-10 (the binary files, in --data)", make_cifar},
      {"pinn",
       "Burgers' equation by its residual (x.npy, t.npy, u.npy in --data to compare with; "
       "synthetic: "
       "computed)",
       make_pinn},
      {"sdf", "signed distances of several meshes by one network (a folder of meshes in --data)",
       make_sdf},
      {"points", "a PointNet on clouds of points of meshes (a folder of meshes in --data)",
       make_points}};
  return kAll;
}

const RecipeInfo& find_recipe(const std::string& name) {
  std::vector<std::string_view> names;
  for (const RecipeInfo& r : recipes()) {
    if (name == r.name) return r;
    names.push_back(r.name);
  }
  for (const char* race : {"optimizer-race", "precision-race"}) names.push_back(race);
  std::string all;
  for (const std::string_view n : names) all += (all.empty() ? "" : ", ") + std::string(n);
  throw UsageError(
      str("there is no recipe '", printable(name), "'", did_you_mean(name, names), " (", all, ")"));
}

}  // namespace wt::tools
