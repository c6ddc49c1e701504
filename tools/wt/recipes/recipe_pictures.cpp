// imagenet-folder: any tree of pictures, and any of the picture classifiers of nn/models.h.
#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/loss.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/random.h"
#include "warptape/data/bytes.h"
#include "warptape/data/synthetic.h"
#include "warptape/tools/wt/recipes/folder_pictures.h"
#include "warptape/tools/wt/recipes/image_recipe.h"
#include "warptape/tools/wt/recipes/picture_models.h"
#include "warptape/tools/wt/reports/run_output.h"

namespace wt::tools {
namespace {

constexpr const char* kClassNames = "classes";  // in the metadata of checkpoints
constexpr i64 kPatternsLearned = 512, kPatternsHeldOut = 128;
// Of ImageNet's pictures in [0, 1]: what torchvision's weights were trained with.
const data::Normalize kNormalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
// A picture is judged by its middle, so many times smaller than its shorter side: torchvision's
// Resize(256) and CenterCrop(224).
constexpr double kMiddle = 224.0 / 256;

class Pictures : public Recipe {
 public:
  explicit Pictures(Settings s)
      : Pictures(s, models::find_model(s.choice("model", picture_model_names()))) {}

  nn::ModuleBase& model() override { return net_; }
  Tensor logits(const Tensor& x) override { return net_(x); }
  Loss loss(const data::Batch& b) override {
    return cross_entropy(logits(b.x), b.y, {.label_smoothing = smoothing_});
  }

  RecipeData load(const std::string& root) override {
    if (root.empty())
      throw UsageError(
          "imagenet-folder needs --data FOLDER with a folder of pictures for each class, or with "
          "train and val that have these");
    if (root == kSyntheticData) return made_up();
    PictureSets sets = open_pictures(root, split_, [&](const std::string& folder, bool train) {
      return data::ImageFolder(folder, train ? seen_in_training() : judged());
    });
    if (i64(sets.classes.size()) != classes_)
      throw DataError(str(printable_path(root), ": ", sets.classes.size(),
                          " classes, and the model has ", classes_));
    for (const std::string& name : sets.classes)
      if (!is_utf8(name))  // as what checkpoints keep of it must be
        throw DataError(str(printable_path(root), ": the class ", printable(name),
                            " is not UTF-8\n  Try another name for the folder"));
    keep_names(std::move(sets.classes));
    return {.train = sets.train, .held_out = sets.held_out, .remarks = std::move(sets.remarks)};
  }
  i64 dataset_bytes(const std::string&) const override { return 0; }  // read as they are asked for
  data::Batch shape_batch(i64 batch) const override { return meta_images(batch, image_shape()); }

  RecipeDefaults defaults() const override {
    return {.batch = 64,
            .eval_batch = 64,
            .epochs = 30,
            .lr = 1e-3,
            .weight_decay = 0.05,
            .warmup = 500,
            .drop_last = true};
  }
  const char* item() const override { return "images"; }
  // Of folders, or of a stranger's checkpoint: as a terminal may show them.
  std::vector<std::string> class_names() const override {
    std::vector<std::string> names;
    for (const std::string& name : names_) names.push_back(printable(name));
    return names;
  }
  bool judges_top5() const override { return classes_ > 5; }
  Shape image_shape() const override { return {3, size_, size_}; }
  Tensor prepare(const Tensor& images) const override {
    return data::Compose{data::ToTensor{}, kNormalize}(images);
  }

  nn::Metadata kept() const override {
    if (names_.empty()) return {};
    std::string text;
    for (const std::string& name : names_) text += name + '/';  // no folder's name has it
    return {{kClassNames, text}};
  }
  void take_kept(const nn::Metadata& kept, const std::string& path) override {
    const std::string* text = find_value(kept, kClassNames);
    if (!text) throw DataError(printable_path(path) + ": there are no names of the classes");
    std::vector<std::string> names;
    std::string name;
    for (const char c : *text) {
      if (c != '/') {
        name += c;
        continue;
      }
      names.push_back(std::exchange(name, {}));
    }
    if (!name.empty() || i64(names.size()) != classes_)
      throw DataError(str(printable_path(path), ": ", names.size(),
                          " names of classes, and the model ", classes_, " classes"));
    keep_names(std::move(names));
  }

 private:
  Pictures(Settings& s, const models::ModelInfo& info)
      : size_(s.integer("size", info.inputs[0].shape[1], 8, 4096)),
        classes_(s.integer("classes", 10, 2, 1'000'000)),
        net_(picture_model(info.name, size_).make(classes_)),
        area_(s.real("area", 0.08, 0.01, 1)),
        flip_(s.flag("flip", true)),
        smoothing_(s.real("label_smoothing", 0, 0, 0.9)),
        split_{.held_out = s.real("val", 0.1, 0.001, 0.9),
               .seed = u64(s.integer("split_seed", 1, 0, i64{1} << 62)),
               .unreadable = s.integer("unreadable", 0, 0, i64{1} << 62)} {
    set_settings(s, "imagenet-folder");
  }

  data::ImageFolderOptions seen_in_training() const {
    std::vector<data::Transform> list{data::RandomResizedCrop{.size = size_, .scale = {area_, 1}}};
    if (flip_) list.push_back(data::RandomHorizontalFlip{});
    list.push_back(data::ToTensor{});
    list.push_back(kNormalize);
    return {.transform = data::Compose(list), .seed = generator().seed()};
  }
  data::ImageFolderOptions judged() const {
    return {.size = i64(std::lround(double(size_) / kMiddle)),
            .transform = {data::CenterCrop{size_}, data::ToTensor{}, kNormalize}};
  }
  // Patterns with as many classes as the settings say.
  RecipeData made_up() {
    std::vector<std::string> names;
    for (i64 c = 0; c < classes_; ++c) names.push_back(str("pattern ", c));
    keep_names(std::move(names));
    const auto patterns = [&](i64 samples, i64 first) {
      return data::SyntheticImages{{.samples = samples,
                                    .classes = classes_,
                                    .channels = 3,
                                    .height = size_,
                                    .width = size_,
                                    .first = first}};
    };
    return {.train = patterns(kPatternsLearned, 0),
            .held_out = patterns(kPatternsHeldOut, kPatternsLearned)};
  }
  // Of the data, or of a checkpoint: they must be the same.
  void keep_names(std::vector<std::string> names) {
    if (!names_.empty() && names_ != names) {
      size_t i = 0;
      while (i < std::min(names.size(), names_.size()) && names[i] == names_[i]) ++i;
      throw DataError(str("the classes are not those that the model was trained on: number ", i,
                          " is ", i < names.size() ? printable(names[i]) : "missing", ", and was ",
                          i < names_.size() ? printable(names_[i]) : "none"));
    }
    names_ = std::move(names);
  }

  i64 size_, classes_;
  models::AnyModel net_;
  double area_;
  bool flip_;
  double smoothing_;
  PictureSplit split_;
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<Recipe> make_pictures(Settings s) {
  return std::make_unique<Pictures>(std::move(s));
}

std::vector<std::string> pictures_settings(const std::string& data) {
  if (data.empty() || data == kSyntheticData) return {};
  return {str("classes=", picture_classes(data).size())};
}

}  // namespace wt::tools
