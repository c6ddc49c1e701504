// imagenet-folder: any tree of pictures, and any of the picture classifiers of nn/models.h.
#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/random.h"
#include "warptape/data/bytes.h"
#include "warptape/data/resample.h"
#include "warptape/data/synthetic.h"
#include "warptape/tools/wt/recipes/folder_pictures.h"
#include "warptape/tools/wt/recipes/image_recipe.h"
#include "warptape/tools/wt/recipes/kept_names.h"
#include "warptape/tools/wt/recipes/picture_models.h"

namespace wt::tools {
namespace {

constexpr i64 kPatternsLearned = 512, kPatternsHeldOut = 128;
// Of ImageNet's pictures in [0, 1]: what torchvision's weights were trained with.
const data::Normalize kNormalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
// A picture is judged by its middle, so many times smaller than its shorter side: torchvision's
// Resize(256) and CenterCrop(224).
constexpr double kMiddle = 224.0 / 256;

// The middle of each of u8 [N, C, height, width], as ImageFolder has pictures of that side.
Tensor middles(const Tensor& images, i64 side) {
  const i64 n = images.size(0), c = images.size(1), height = images.size(2), width = images.size(3);
  const Tensor rows = permute(images, {0, 2, 3, 1}).contiguous();
  Tensor out = empty({n, c, side, side}, {.dtype = DType::u8, .device = Device::cpu()});
  const data::detail::ImageBox box = data::detail::middle_box(height, width, side, side, true);
  for (i64 i = 0; i < n; ++i)
    data::detail::resample(rows.data<u8>() + i * height * width * c, height, width, c, box,
                           out.mutable_data<u8>() + i * c * side * side, side, side);
  return out;
}

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
    names_.keep(std::move(sets.classes));
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
  double eval_cost() const override { return 1; }  // of small models: it is read and decoded
  const char* item() const override { return "images"; }
  std::vector<std::string> class_names() const override { return names_.shown(); }
  bool judges_top5() const override { return classes_ > 5; }
  Shape image_shape() const override { return {3, size_, size_}; }
  Tensor prepare(const Tensor& images) const override {
    return data::Compose{data::ToTensor{}, kNormalize}(images);
  }
  std::optional<Tensor> fit(const Tensor& images) const override {
    return data::Compose{data::CenterCrop{size_}}(middles(images, judged_side())).to(DType::u8);
  }

  nn::Metadata kept() const override { return names_.kept(); }
  void take_kept(const nn::Metadata& kept, const std::string& path) override {
    names_.take(kept, path);
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
  i64 judged_side() const { return std::lround(double(size_) / kMiddle); }
  data::ImageFolderOptions judged() const {
    return {.size = judged_side(),
            .transform = {data::CenterCrop{size_}, data::ToTensor{}, kNormalize}};
  }
  // Patterns with as many classes as the settings say.
  RecipeData made_up() {
    std::vector<std::string> names;
    for (i64 c = 0; c < classes_; ++c) names.push_back(str("pattern ", c));
    names_.keep(std::move(names));
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

  i64 size_, classes_;
  models::AnyModel net_;
  double area_;
  bool flip_;
  double smoothing_;
  PictureSplit split_;
  KeptNames names_{"classes", classes_};
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
