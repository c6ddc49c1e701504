// Recipes: what `wt train` can train. A recipe is a model, its loss and where its data comes from;
// training, evaluation and the commands that use a trained model are the same for all. Most give a
// logit for each class and are judged by cross entropy and accuracy; others say by what they are.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/data/combine.h"
#include "warptape/data/loader.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/loss.h"
#include "warptape/nn/module.h"
#include "warptape/tools/wt/training/settings.h"

namespace wt::models {
struct Decoder;
}

namespace wt::tools {

// A loss that a model must fall below before it has learnt anything from its input.
struct Baseline {
  std::string label;
  double loss = 0;  // nats
};

struct RecipeData {
  data::AnyDataset train, held_out;
  std::optional<Baseline> baseline = {};
  // `train` on a device, with the same batches; empty where the recipe has no such data. Throws
  // OutOfMemory.
  std::function<data::AnyDataset(Device)> resident = {};
  // The order of `train` for batches of a size; empty: shuffled. There is no resident data then.
  std::function<data::Sampler(i64 batch, u64 seed)> order = {};
  std::vector<std::string> remarks = {};  // what a user should know of the data
};

// A --data of this name is made and not read, in the shapes of the recipe's own (./synthetic is a
// folder of that name).
inline constexpr const char* kSyntheticData = "synthetic";

struct RecipeDefaults {
  i64 batch = 64, eval_batch = 500;
  i64 epochs = 0, steps = 0;  // one of them
  double lr = 1e-3;           // of AdamW; optimizers.h has what others make of it
  double weight_decay = 0.01, clip = 1.0;
  i64 warmup = 0;
  i64 evals = 10;                   // evaluations over the run, beside the one before step 1
  std::string schedule = "cosine";  // of the rate, unless --schedule says another
  bool drop_last = false;
};

// Steps at the end of a run that are rounds of L-BFGS (optim/lbfgs.h), each so many iterations from
// a new history over one batch.
struct LbfgsRounds {
  i64 rounds = 0, iterations = 0;
};

// A number that held-out data is judged by: `key` in JSON, `label` for people.
struct Measure {
  std::string key, label;
  double value = 0;
};
// What a run's folder gets at its end beside the report.
struct RecipeFile {
  std::string name;
  std::string bytes;
};
struct Outcome {
  std::vector<Measure> measures{};
  std::vector<RecipeFile> files{};
};

// Tables of classes are made for so many of them at most.
inline constexpr size_t kMostTableClasses = 50;
// Of held-out samples that a recipe draws: no run's seed, and `wt eval`, which has none, draws the
// same.
inline constexpr u64 kHeldOutSeed = 0x9E37'79B9'7F4A'7C15;

class Translator;

// The tokenizer of a recipe of text, in the metadata of its checkpoints.
inline constexpr const char* kTokenizerKey = "tokenizer";
// Its text, of the file at `path`. Throws DataError where there is none.
const std::string& tokenizer_in(const nn::Metadata& kept, const std::string& path);

class Recipe {
 public:
  virtual ~Recipe() = default;

  virtual nn::ModuleBase& model() = 0;
  // Of a batch's x: [N, ..., classes]; its y has the shape [N, ...].
  virtual Tensor logits(const Tensor& x) = 0;
  // Of a batch on the model's device: what is trained. Cross entropy, unless the recipe has
  // another.
  virtual Loss loss(const data::Batch& b);

  // Whether held-out data is judged by cross entropy and accuracy of logits(); else by measures().
  virtual bool classifies() const { return true; }
  // What it costs to judge a held-out sample, in steps of training on one: a forward is a third.
  virtual double eval_cost() const { return 1.0 / 3; }
  // The first one is what is called the held-out loss, so less is better. The model is in eval
  // mode.
  virtual std::vector<Measure> measures(const data::AnyDataset&) { return {}; }
  // At the end of a run, in eval mode: what would take too long at each evaluation, and pictures.
  // `data` is what load() was given.
  virtual Outcome outcome(const data::AnyDataset&) { return {}; }

  virtual LbfgsRounds rounds() const { return {}; }
  // What a round sees of its batch, which lies on the model's device, and the loss of that.
  virtual data::Batch round_batch(const data::Batch& b) { return b; }
  virtual Loss round_loss(const data::Batch& b) { return loss(b); }

  // Reads the data; a recipe that has tokens of its own and none yet makes them of it. Throws
  // UsageError where the recipe needs a --data, DataError for what is wrong with it.
  virtual RecipeData load(const std::string& data) = 0;
  // What the model takes from the data before a new training's first step.
  virtual void begin(const data::AnyDataset&) {}
  // Bytes that load(data) will hold on the cpu, from headers and sizes alone.
  virtual i64 dataset_bytes(const std::string& data) const = 0;
  // Bytes that RecipeData::resident of load(data) holds on its device; 0 where there is none.
  virtual i64 resident_bytes(const std::string&) const { return 0; }
  // A batch of the right shapes on the meta device.
  virtual data::Batch shape_batch(i64 batch) const = 0;

  virtual RecipeDefaults defaults() const = 0;
  virtual const char* item() const = 0;  // what items_per_second counts
  virtual i64 items_per_sample() const { return 1; }

  // Names of the classes; empty where they have none.
  virtual std::vector<std::string> class_names() const { return {}; }
  // Whether evaluations also say how often the class is among the five likeliest.
  virtual bool judges_top5() const { return false; }
  // The shape of one image, [channels, height, width], for recipes about images; else empty.
  virtual Shape image_shape() const { return {}; }
  // What a dataset makes of images u8 [N, channels, height, width].
  virtual Tensor prepare(const Tensor& images) const;
  // Images u8 [N, channels, height, width] of any size as evaluation shows them to the model, u8
  // [N, image_shape()]; nothing where the recipe knows images of that size alone.
  virtual std::optional<Tensor> fit(const Tensor& /*images*/) const { return {}; }
  // Tokens that a model of text looks back at; 0 for others.
  virtual i64 context() const { return 0; }
  // Whether the model makes text of text, and what does so with it: null for others. It holds the
  // model, which it follows. Throws DataError before load() or take() has brought the tokens.
  virtual bool translates() const { return false; }
  virtual std::unique_ptr<Translator> translator();

  // Of a model of text: its tokens, bytes unless the recipe says otherwise, and how they are
  // generated with a cache; the default computes the whole text for each token.
  virtual std::vector<i64> encode(std::string_view text) const;
  virtual std::string decode(std::span<const i64> tokens) const;
  virtual models::Decoder decoder();

  // Bytes of the held-out text that load() has read, for each token of it that is predicted; 0
  // where that is not known. A loss in nats a token is divided by it.
  virtual double bytes_per_token() const { return 0; }
  // What checkpoints keep beside weights and settings, and how a recipe takes it back from the
  // metadata of the file at `path`, which throws DataError.
  virtual nn::Metadata kept() const { return {}; }
  virtual void take_kept(const nn::Metadata&, const std::string&) {}
  // Weights to begin with from a file that is a checkpoint, of which the average may be asked for,
  // or has the model's names. Throws as nn::load_model(); the model is then as before.
  virtual void load_weights(const std::string& path, bool averaged);

  // All settings with their values; a recipe made from them has a model of the same shape.
  const std::string& settings() const { return settings_; }

 protected:
  // To be called once all settings were asked for.
  void set_settings(const Settings& s, const char* recipe);

 private:
  std::string settings_;
};

struct RecipeInfo {
  const char* name;
  const char* summary;
  std::unique_ptr<Recipe> (*make)(Settings settings);
  // Settings that the data decides, KEY=VALUE; null: none.
  std::vector<std::string> (*of_data)(const std::string& data) = nullptr;
  bool foresees = false;  // whether a batch that will not fit is refused before the run
};
const std::vector<RecipeInfo>& recipes();
// Throws UsageError with the near name.
const RecipeInfo& find_recipe(const std::string& name);
// The recipe with these settings (KEY=VALUE), beside what its data decides and they do not. Throws
// UsageError, and DataError for what has to be seen of the data.
std::unique_ptr<Recipe> make_recipe(const std::string& name, std::vector<std::string> set,
                                    const std::string& data);

std::unique_ptr<Recipe> make_charlm(Settings s);
std::unique_ptr<Recipe> make_fashion(Settings s);
std::unique_ptr<Recipe> make_cifar(Settings s);
std::unique_ptr<Recipe> make_pictures(Settings s);
std::vector<std::string> pictures_settings(const std::string& data);
std::unique_ptr<Recipe> make_translate(Settings s);
std::unique_ptr<Recipe> make_gpt2(Settings s);
std::unique_ptr<Recipe> make_pinn(Settings s);
std::unique_ptr<Recipe> make_sdf(Settings s);
std::unique_ptr<Recipe> make_points(Settings s);

}  // namespace wt::tools
