#include "warptape/tools/wt/recipes/recipes.h"

#include <algorithm>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/suggest.h"
#include "warptape/data/bpe.h"
#include "warptape/nn/evaluate.h"
#include "warptape/nn/generate.h"
#include "warptape/tools/wt/recipes/translator.h"
#include "warptape/tools/wt/reports/run_output.h"

namespace wt::tools {

Loss Recipe::loss(const data::Batch& b) {
  Tensor y = logits(b.x);
  const i64 classes = y.size(-1);
  return cross_entropy(reshape(std::move(y), {-1, classes}), reshape(b.y, {-1}));
}

std::unique_ptr<Translator> Recipe::translator() { return nullptr; }

const std::string& tokenizer_in(const nn::Metadata& kept, const std::string& path) {
  const std::string* text = find_value(kept, kTokenizerKey);
  if (!text) throw DataError(printable_path(path) + ": the checkpoint has no tokenizer");
  return *text;
}

Tensor Recipe::prepare(const Tensor&) const { throw UsageError("this recipe takes no images"); }

std::vector<i64> Recipe::encode(std::string_view text) const {
  return data::ByteTokenizer{}.encode(text);
}
std::string Recipe::decode(std::span<const i64> tokens) const {
  return data::ByteTokenizer{}.decode(tokens);
}

models::Decoder Recipe::decoder() {
  const TensorOptions o{.device = wt::detail::device_of_model(model()).value_or(Device::cpu())};
  const auto text = std::make_shared<std::vector<i64>>();
  return {.model = model(),
          .vocabulary = data::ByteTokenizer{}.vocab_size(),
          .size = {.context = context()},
          .options = o,
          .logits = [this, text, o](const Tensor& ids, models::KvCache& cache) {
            text->resize(size_t(cache.lengths()[0]));
            for (const i64 id : ids.to_vector<i64>()) text->push_back(id);
            const Tensor x = tensor(*text, {.device = o.device});
            return select(logits(reshape(x, {1, x.numel()})), 1, -1);
          }};
}

void Recipe::load_weights(const std::string& path, bool averaged) {
  nn::load_model(model(), path, {.ema = averaged});
}

void Recipe::set_settings(const Settings& s, const char* recipe) {
  s.finish(recipe);
  settings_ = s.text();
}

const std::vector<RecipeInfo>& recipes() {
  static const std::vector<RecipeInfo> kAll = {
      {"charlm",
       "a small GPT on the bytes of a text; without --data on warptape's own sources and docs",
       make_charlm},
      {"gpt2",
       "GPT-2 on the tokens of a text (byte-pair encoding, trained on the text or GPT-2's own); "
       "--init-from takes its weights",
       make_gpt2},
      {"fashion", "a CNN on Fashion-MNIST or MNIST (IDX files, plain or .gz, in --data)",
       make_fashion},
      {"cifar",
       "a CNN, ResNet-18 or the speed-run network on CIFAR-10 (the binary files, in --data)",
       make_cifar},
      {"imagenet-folder",
       "a picture classifier of `wt models` on a tree of pictures (--data: a folder a class)",
       make_pictures, pictures_settings, true},
      {"translate",
       "an encoder-decoder Transformer on pairs of sentences (train.en, train.de, val.en, val.de "
       "in "
       "--data)",
       make_translate},
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

std::unique_ptr<Recipe> make_recipe(const std::string& name, std::vector<std::string> set,
                                    const std::string& data) {
  const RecipeInfo& info = find_recipe(name);
  if (info.of_data)
    for (const std::string& decided : info.of_data(data)) {
      const std::string key = decided.substr(0, decided.find('=') + 1);
      if (std::none_of(set.begin(), set.end(), [&](const auto& s) { return s.starts_with(key); }))
        set.push_back(decided);
    }
  return info.make(Settings(set));
}

}  // namespace wt::tools
